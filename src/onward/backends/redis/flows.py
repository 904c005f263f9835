"""Flows: hashes and sorted sets, as `layout` describes them.  `scripts/lib/looking.lua` has the look at a flow."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from onward.backend import COUNTED, LEFT_OPEN, Audit, Enqueued, Envelope, FlowRow, Lease
from onward.backends.damage import set_aside_and_repeat
from onward.backends.redis import packing
from onward.backends.redis.audit import given
from onward.backends.redis.layout import FLOW, NODE, NODE_STATES, STATES, binary
from onward.backends.redis.packing import UNREADABLE
from onward.backends.redis.showing import shown_name
from onward.base.clock import SECOND
from onward.base.logs import get_logger
from onward.errors import BackendError, BackendRefused
from onward.flow.graph import Node
from onward.job.membership import When
from onward.job.states import State

__all__ = ["RedisFlows"]

logger = get_logger("onward")

_STRETCH = 1_000  # jobs that one script looks at
_FLOWS = 100  # that one script looks at
_LOOKED_AT = 1_000  # nodes and members, after which a script looks at no further flow
_MEMBERS = 200  # of a flow that a sweep compares with their records
_MOST_STEPS = 100  # of one sweep; the next one goes on
_LEFT_OPEN = round(LEFT_OPEN.total_seconds() * SECOND)
_DAMAGED = -1

_about = msgspec.msgpack.Decoder(tuple[str, bool, list[tuple[str, list[int], When]]]).decode
_flow, _node = binary(FLOW), binary(NODE)


class RedisFlows:
    """The `KeepsFlows` half of the backend."""

    @abstractmethod
    def set_aside_if_it_can(self) -> int: ...

    @abstractmethod
    def _run(self, name: str, *arguments: Any, beside: Sequence[bytes] = ()) -> Any: ...

    @abstractmethod
    def _now(self) -> int | None: ...

    @abstractmethod
    def _add(self, envelopes: Sequence[Envelope], *guard: Any, retried: bool) -> Any: ...

    @set_aside_and_repeat
    def flow(self, flow_id: str) -> FlowRow | None:
        found = self._run("flow", flow_id)
        return _row(flow_id, found) if found else None

    @set_aside_and_repeat
    def flows(
        self, *, name: str | None = None, running: bool = False, after: str | None = None, limit: int = 100
    ) -> Sequence[FlowRow]:
        found: list[FlowRow] = []
        stretch = max(1, min(limit, _FLOWS)) if name is None else _FLOWS
        while len(found) < limit:
            page = self._run("flows", running, after, stretch)
            found += (row for row in map(_readable, page) if row is not None and name in (None, row.name))
            if len(page) < stretch:
                break
            after = shown_name(page[-1][0])
        return found[:limit]

    @set_aside_and_repeat
    def member_counts(self, flow_id: str, *, at_most: int = COUNTED) -> dict[str, dict[State, int]]:
        return {node: self._counts(f"{flow_id}\n{node}", at_most) for node in self._nodes_of(flow_id)}

    def _nodes_of(self, flow_id: str) -> list[str]:
        """Return the names of a flow's nodes, by their rows: a plan that cannot be read hides none."""
        return sorted(shown_name(field[1:]) for field in self._run("flow", flow_id)[::2] if field.startswith(b"="))

    def _counts(self, place: str, at_most: int) -> dict[State, int]:
        after, seen, total = None, 0, dict.fromkeys(STATES, 0)
        while seen < at_most:
            stretch = min(_STRETCH, at_most - seen)
            counts, after = self._run("member_counts", place, after and shown_name(after), stretch)
            for number, count in enumerate(counts, 1):
                total[number] += count
            seen += stretch
            if after is None:
                break
        return {STATES[number]: min(count, at_most) for number, count in total.items() if count}

    @set_aside_and_repeat
    def extend_flow(
        self, flow_id: str, envelopes: Sequence[Envelope], *, retried: bool = False
    ) -> list[Enqueued] | None:
        answer = self._add(envelopes, flow_id, retried=retried)
        if answer == _DAMAGED:
            raise _unreadable(flow_id)
        return None if isinstance(answer, int) else packing.enqueued(envelopes, answer)

    @set_aside_and_repeat
    def grow(self, lease: Lease, envelopes: Sequence[Envelope]) -> list[Enqueued] | None:
        answer = self._add(envelopes, None, (lease.envelope.id, lease.token, lease.owner), retried=True)
        return None if isinstance(answer, int) else packing.enqueued(envelopes, answer)

    @set_aside_and_repeat
    def close_flow(self, flow_id: str) -> bool:
        done, _, _ = self._change(flow_id, "close")
        return done

    @set_aside_and_repeat
    def cancel_flow(self, flow_id: str, reason: str, *, audit: Audit = ()) -> bool:
        done, is_left, _ = self._change(flow_id, "cancel", reason, *given(audit))
        if is_left:
            self._finish_steps(flow_id)
        return done

    @set_aside_and_repeat
    def retry_flow(self, flow_id: str, *, audit: Audit = ()) -> int | None:
        done, is_left, replayed = self._change(flow_id, "retry", None, *given(audit))
        if not done:
            return None
        return self._finish_steps(flow_id) if is_left else replayed

    def _change(self, flow_id: str, verb: str, reason: str | None = None, *audit: Any) -> tuple[bool, bool, int]:
        done, is_left, replayed = self._run("change_flow", self._now(), flow_id, verb, reason, *audit)
        if done == _DAMAGED:
            raise _unreadable(flow_id)
        return bool(done), bool(is_left), replayed

    def _finish_steps(self, flow_id: str) -> int:
        """Take the steps that a look has left, one script each; return how many jobs the last retry has replayed."""
        while True:
            _, is_left, replayed = self._change(flow_id, "step")
            if not is_left:
                return replayed

    def _sweep_flows(self) -> None:
        """Look at every flow that is not over.  What is done already, is done: a failure is logged."""
        try:
            self._swept()
        except BackendError as error:
            logger.error("flows could not be looked at: %s: the next sweep looks again", error)  # noqa: TRY400  one line says it

    @set_aside_and_repeat
    def _swept(self) -> None:
        after, steps, is_wrong = None, 0, False
        while True:
            bounds = (_FLOWS, _LEFT_OPEN, _MEMBERS, _LOOKED_AT, random.getrandbits(31))
            following, found, unswept, wrong = self._run(
                "sweep_flows", self._now(), after and shown_name(after), *bounds
            )
            is_wrong = is_wrong or bool(wrong)
            for flow_id, name, what in found:
                _log(shown_name(flow_id), shown_name(name), what.decode())
            for flow_id in unswept:
                while steps < _MOST_STEPS and self._change(shown_name(flow_id), "step")[1]:
                    steps += 1
            if following is None:
                break
            after = following
        if is_wrong:
            logger.error("members of a flow are listed that are not there: records are searched")
            self.set_aside_if_it_can()


def _log(flow_id: str, name: str, what: str) -> None:
    if what == "left open":
        logger.warning(
            "flow %s %s got no more jobs for 24 hours and is closed: was the process that filled it killed?",
            name,
            flow_id,
        )
    elif what == "overlooked":
        logger.error("flow %s %s should have gone on before: a job of it ended without a look", name, flow_id)
    else:
        logger.critical("flow %s cannot go on: it has rows that no worker writes", flow_id)


def _unreadable(flow_id: str) -> BackendRefused:
    return BackendRefused(
        f"flow {flow_id} has rows that no worker writes: cancel its jobs one by one, or restore its key from a backup"
    )


def _readable(found: tuple[bytes, Sequence[bytes]]) -> FlowRow | None:
    """Return a flow of a list; None if no worker wrote it: it hides no other."""
    flow_id, pairs = found
    try:
        return _row(shown_name(flow_id), pairs)
    except BackendRefused as error:
        logger.critical("flow %s cannot be shown: %s", shown_name(flow_id), error)
        return None


def _row(flow_id: str, pairs: Sequence[bytes]) -> FlowRow:
    """Return a flow from its fields and what they hold, one after the other."""
    fields = dict(zip(pairs[::2], pairs[1::2], strict=True))
    try:
        name, stop_on_failure, plans = _about(fields[b"about"])
        closed, stopped, _, created_at, _, over_at = _flow.unpack(fields[b"state"])
        cancelled = fields.get(b"cancelled")
        return FlowRow(
            id=flow_id,
            name=name,
            nodes=tuple(_nodes(fields, plans)),
            created_at=created_at,
            stop_on_failure=stop_on_failure,
            closed=bool(closed),
            stopped=bool(stopped),
            cancelled=None if cancelled is None else shown_name(cancelled),
            over_at=over_at or None,
        )
    except UNREADABLE as error:
        raise _unreadable(flow_id) from error


def _nodes(fields: Mapping[bytes, bytes], plans: Sequence[tuple[str, list[int], When]]) -> Iterator[Node]:
    names = [name for name, _, _ in plans]
    for place, (name, after, when) in enumerate(plans):
        if not all(1 <= before <= place for before in after):
            raise ValueError(f"node {name} comes after one that follows it")
        state, failed, _ = _node.unpack_from(fields[b"=" + name.encode()])
        yield Node(
            name=name,
            after=tuple(names[before - 1] for before in after),
            when=when,
            state=NODE_STATES[state],
            failed=bool(failed),
            total=int(fields.get(b"+" + name.encode(), b"0")),
        )
