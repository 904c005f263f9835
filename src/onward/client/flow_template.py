"""A flow that a schedule starts: its letters are the template, and one job of each tick starts it.

    tick ─▶ job "onward.flow", booked as any job of a schedule ─▶ the flow, stored whole in one write

That job is what is booked, taken back, caught up and held: so all policies mean for a flow what they mean for a job.  The
ids of the flow and of its jobs follow from the schedule's name and the tick: a start that is repeated stores nothing twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from onward.backend import Backend, Enqueued
from onward.base.clock import SECOND, to_micros
from onward.base.ids import child_id, scheduled_flow_id
from onward.client.client import Client
from onward.client.flow_builder import FlowBuilder, with_plan
from onward.client.letters import LetterWriter
from onward.errors import ArgumentError
from onward.job.context import JobContext
from onward.job.definition import EnqueueOptions, JobDefinition
from onward.job.envelope import Envelope, Letter
from onward.job.membership import FlowPlan

__all__ = ["START", "FlowStarter", "FlowTemplate", "TemplateMember", "flow_letter", "flow_template_of", "members_of"]

START = "onward.flow"

_RETRIES = 20  # of a start: the store was away, or refused it


class TemplateMember(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One job of the flow."""

    node: str
    letter: Letter
    delay: int = 0
    expires_in: float | None = None


class FlowTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """The payload of the job that starts a flow."""

    schedule: str
    plan: FlowPlan
    members: tuple[TemplateMember, ...]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(FlowTemplate).decode
_replace = msgspec.structs.replace


def flow_letter(schedule: str, flow: FlowBuilder, letters: LetterWriter) -> Letter:
    """Return the letter of the job that starts this flow, in the clear."""
    if not flow.is_written_by(letters):
        raise ArgumentError(
            f"schedule {schedule!r}: flow {flow.name} is one of another application: use the schedules of that one"
        )
    plan, calls = flow.calls()
    members = []
    for call in calls:
        letter, expires_in = letters.template(call.definition, call.options, call.payload, is_member=True)
        delay = round(call.options.delay * SECOND)
        # Its id is made when the flow starts; here it would differ each time that the same flow is built.
        letter = _replace(letter, id="", not_before=None)
        members.append(TemplateMember(node=call.node, letter=letter, delay=delay, expires_in=expires_in))
    first = members[0].letter
    definition = _definition(queue=first.queue, priority=first.priority)
    payload = _encode(FlowTemplate(schedule=schedule, plan=plan, members=tuple(members)))
    letter, _ = letters.template(definition, EnqueueOptions(), payload)
    hidden = ("members",) if any(member.letter.secrets for member in members) else ()
    return _replace(letter, secrets=hidden)


def flow_template_of(letter: Letter) -> FlowTemplate | None:
    """Return the flow that a job starts; None if it starts none.  Raises `msgspec.DecodeError` for what is no flow."""
    return _decode(letter.payload) if letter.job == START else None


def members_of(template: FlowTemplate, letters: LetterWriter, *, flow: str, tick: int | None = None) -> list[Envelope]:
    """Seal the jobs of a flow, under ids that follow from its own; the first carries the plan."""
    places: Counter[str] = Counter()
    sealed = []
    for member in template.members:
        place, places[member.node] = places[member.node], places[member.node] + 1
        sealed.append(
            letters.seal_again(
                _replace(member.letter, flow=flow, node=member.node, scheduled_for=tick),
                job_id=child_id(flow, flow, member.node, place),
                delay=member.delay,
                expires_in=member.expires_in,
            )
        )
    return with_plan(sealed, template.plan)


class FlowStarter:
    """The entry of jobs that start a flow (`onward.job.registry.Entry`)."""

    is_async = False
    takes_context = True
    denied_by_default = False
    returns = str
    unique_key = None
    secrets = ()

    def __init__(self, backend: Backend, client: Client, namespace: str) -> None:
        self.definition = _definition()
        self._backend = backend
        self._client = client
        self._namespace = namespace

    def decoded(self, payload: bytes | msgspec.Raw) -> FlowTemplate:
        return _decode(payload)

    fit = decoded

    def check(self, payload: bytes) -> None:
        raise ArgumentError(
            f"{START} is Onward's own job: give a schedule a flow, jobs.schedules.create(name, cron, flow)"
        )

    def invoke(self, ctx: JobContext | None, payload: bytes | msgspec.Raw) -> str:
        return self.bound(ctx, payload)()

    def bound(self, ctx: JobContext | None, payload: bytes | msgspec.Raw) -> Callable[[], str]:
        assert ctx is not None
        return partial(self._start, ctx, _decode(payload))

    def _start(self, ctx: JobContext, template: FlowTemplate) -> str:
        """Store the flow, unless an earlier run has; return its id."""
        flow = scheduled_flow_id(self._namespace, template.schedule, ctx.id)
        tick = None if ctx.scheduled_for is None else to_micros(ctx.scheduled_for)
        envelopes = members_of(template, self._client.letters, flow=flow, tick=tick)
        self._client.enqueue_by(self._store, envelopes)
        return flow

    def _store(self, envelopes: Sequence[Envelope], *, retried: bool = False) -> list[Enqueued]:
        # Always as a repeated one: what an earlier run of this job has stored may have ended by now.
        return list(self._backend.enqueue(envelopes, retried=True))


def _definition(**options: Any) -> JobDefinition:
    return JobDefinition(name=START, handler=START, max_retries=_RETRIES, **options)
