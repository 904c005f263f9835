"""The specification of a schedule, sealed; and the jobs that are made of it.

A specification is signed and its arguments are encrypted as a job's are, under a queue that no job can lie in: its bytes
cannot be taken for a job's, nor a job's for it.  What is compared from deployment to deployment is the fingerprint, a digest
of the specification in the clear: signatures and ciphertexts differ each time.  With encryption on, it is keyed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypedDict

import msgspec

from onward.backend import Origin, ScheduleRow
from onward.base.clock import SECOND
from onward.base.durations import Duration
from onward.base.ids import occurrence_id
from onward.base.lazy import hashlib
from onward.client.calls import Call
from onward.client.flow_builder import FlowBuilder
from onward.client.flow_template import FlowTemplate, flow_letter, flow_template_of, members_of
from onward.client.letters import LetterWriter
from onward.errors import ArgumentError, EnvelopeError, InvalidSchedule, OptionError, PayloadTooLarge
from onward.flow.cron import normal, ticks_of
from onward.flow.schedule import (
    Specification,
    checked_catch_up,
    checked_overlap,
    checked_spread,
    schedule_name,
)
from onward.job.envelope import Envelope, Letter, Sealed, parted, signed
from onward.security.keys import Keys

__all__ = ["PolicyOptions", "ScheduleOptions", "ScheduleWriter"]

_PLACE = "/schedules"  # no queue has a slash in its name
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Specification).decode
_replace = msgspec.structs.replace


class PolicyOptions(TypedDict, total=False):
    """What a schedule says about late, overlapping and simultaneous runs."""

    catch_up: str | int
    """Of ticks that are late: `"skip"` runs none, `"once"` (by default) the newest, a number so many of the newest."""
    overlap: str
    """While an occurrence runs, the next one waits (`"queue"`, by default), is left out (`"skip"`), asks it to stop
    (`"cancel"`), or runs beside it (`"allow"`)."""
    spread: Duration | bool | None
    """How long after its tick a job may be due, the same on every machine. `True` shifts the ticks of `@every`."""


class ScheduleOptions(PolicyOptions, total=False):
    """What `@jobs.schedule(cron, ...)` takes."""

    tz: str
    """The time zone of the expression, by its name: `"Europe/Berlin"`. `"UTC"` by default."""
    name: str | None
    """The name of the schedule. Else that of the job."""
    args: Mapping[str, Any] | Sequence[Any] | None
    """The arguments of every run, by name or in order. Else the parameters need defaults."""
    environments: Sequence[str] | None
    """It counts only where the setting `environment` is one of these."""


class _Template(NamedTuple):
    """What every occurrence is a copy of."""

    letter: Letter
    expires_in: float | None = None
    flow: str | None = None


class ScheduleWriter:
    """Writes, seals and opens the specifications of one application.  Reaches no store."""

    def __init__(self, letters: LetterWriter, keys: Keys, namespace: str) -> None:
        self._letters = letters
        self._keys = keys
        self.namespace = namespace

    def refuse_without_schedules(self) -> None:
        """Raise if the store keeps no schedules."""
        if not self._letters.capabilities.schedules:
            raise OptionError(
                "this store cannot keep schedules (it declares no `schedules`): give the broker a store, "
                'Onward(url, store="sqlite:///onward.db") or ONWARD_STORE, or use a database as url'
            )

    def specification(
        self,
        name: str,
        expression: str,
        call: Call | FlowBuilder | Specification,
        *,
        tz: str = "UTC",
        catch_up: Any = "once",
        overlap: Any = "queue",
        spread: Duration | bool | None = None,
    ) -> Specification:
        """Check everything that a schedule says; raise for the first thing that is wrong.

        ``call``: of the job, or the flow; or the specification to take it from.
        """
        self.refuse_without_schedules()
        expression = normal(expression)
        ticks_of(expression, tz)
        letter, expires_in, flow = self._template_of(schedule_name(name), call)
        overlap = checked_overlap(overlap)
        if letter.single_instance and overlap in ("allow", "cancel"):
            raise InvalidSchedule(
                f"schedule {name!r}: job {letter.job} is single_instance, which cannot be {overlap!r}: use overlap='queue' "
                f"or 'skip', or leave single_instance to the schedule"
            )
        specification = Specification(
            name=name,
            namespace=self.namespace,
            expression=expression,
            zone=tz,
            catch_up=checked_catch_up(catch_up),
            overlap=overlap,
            spread=checked_spread(spread, expression),
            expires_in=expires_in,
            letter=_replace(letter, id=f"schedule/{name}"),
            flow=flow,
        )
        self._refuse_too_large(specification)
        return specification

    def _refuse_too_large(self, specification: Specification) -> None:
        try:
            self._letters.refuse_too_large(_replace(specification.letter, schedule=specification.occurrence(0)))
        except PayloadTooLarge as error:
            if specification.flow is None:
                raise
            raise InvalidSchedule(
                f"schedule {specification.name!r}: the jobs of flow {specification.flow} travel in one job of "
                f"{error.size:,} bytes, and the limit is {error.limit:,}: let its first job add others with "
                f"ctx.flow.map(...), or raise max_payload"
            ) from None

    def _template_of(self, name: str, call: Call | FlowBuilder | Specification) -> _Template:
        if isinstance(call, Specification):
            return _Template(call.letter, call.expires_in, call.flow)
        if isinstance(call, FlowBuilder):
            return _Template(flow_letter(name, call, self._letters), flow=call.name)
        if not isinstance(call, Call) or call.job is None:
            raise OptionError(
                f"schedule {name!r} needs a call of a job, such as report.call('acme'), or a flow, not {call!r:.60}"
            )
        if not call.job.is_written_by(self._letters):
            raise ArgumentError(
                f"schedule {name!r}: {call.job.name} is a job of another application: use the schedules of that one"
            )
        try:
            return _Template(*call.job.template(call))
        except ArgumentError as error:
            raise ArgumentError(
                f"schedule {name!r}: {error}; when it fires no caller passes any: give defaults, args={{…}}, or job.call(…)"
            ) from None

    def fingerprint(self, specification: Specification) -> str:
        """Return what tells two specifications apart."""
        digest = hashlib.sha256(_encode(specification)).hexdigest()
        return self._keys.encryption.key("schedule", specification.name, digest) or digest

    def seal(self, specification: Specification) -> bytes:
        """Return the specification as it is stored."""
        self._keys.look()
        closed = _replace(specification, letter=self._keys.encryption.close(specification.letter))
        return signed(_encode(closed), _PLACE, self._keys.signing.sign)

    def row(self, specification: Specification, now: int, *, origin: Origin, declared_at: int) -> ScheduleRow:
        """Return the row of a schedule as it is stored first: its ticks are booked from now on."""
        return ScheduleRow(
            name=specification.name,
            sealed=self.seal(specification),
            fingerprint=self.fingerprint(specification),
            origin=origin,
            declared_at=declared_at,
            booked_until=now,
        )

    def open(self, row: ScheduleRow) -> Specification:
        """Verify and read a stored specification.  Raises `EnvelopeError` for what none of our keys has signed."""
        sealed, verify = Sealed(row.name, _PLACE, row.sealed), self._keys.signing.verify
        body = parted(row.sealed)[2] if verify is None else verify(sealed)
        try:
            found = _decode(body)
            if found.name != row.name or found.namespace != self.namespace:
                raise EnvelopeError(f"sealed for schedule {found.name!r:.80} of namespace {found.namespace!r:.80}")
            ticks_of(found.expression, found.zone)
            schedule_name(found.name)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InvalidSchedule) as error:
            raise EnvelopeError(f"the sealed bytes are not a schedule: {error}") from None
        found = _replace(found, letter=_replace(self._keys.encryption.open(found.letter), enc=None))
        try:
            self.flow_of(found)
        except msgspec.DecodeError as error:
            raise EnvelopeError(f"the sealed bytes are not a schedule's flow: {error}") from None
        return found

    def renewed(self, row: ScheduleRow) -> bytes | None:
        """Return a specification sealed anew if a key has signed it that signs no more: that one can then be revoked.

        None if there is no need, or if it does not verify.  What was never signed is not signed here.
        """
        with suppress(EnvelopeError):  # the booker says so where it opens it
            if self._keys.signing.outdated(Sealed(row.name, _PLACE, row.sealed)):
                return self.seal(self.open(row))
        return None

    def jobs(self, specification: Specification, ticks: Sequence[int]) -> list[Envelope]:
        """Seal the jobs of these ticks."""
        return [self._job(specification, tick) for tick in ticks]

    def _job(self, specification: Specification, tick: int) -> Envelope:
        due = specification.due(tick)
        valid = specification.expires_in
        return self._letters.seal_again(
            # Its id says which tick it is.  Of those that are booked together, a key would let one in.
            _replace(specification.letter, unique_key=None),
            job_id=occurrence_id(self.namespace, specification.name, tick),
            not_before=due,
            expires_at=None if valid is None else due + round(valid * SECOND),
            schedule=specification.occurrence(tick),
        )

    def flow_of(self, specification: Specification) -> FlowTemplate | None:
        """Return the flow that a schedule starts; None if its job is a plain one."""
        return None if specification.flow is None else flow_template_of(specification.letter)

    def flow_now(self, template: FlowTemplate) -> list[Envelope]:
        """Seal the jobs of a flow outside of all ticks."""
        return members_of(template, self._letters, flow=self._letters.new_id())

    def job_now(self, specification: Specification, now: int) -> Envelope:
        """Seal a job outside of all ticks."""
        valid = specification.expires_in
        return self._letters.seal_again(
            specification.letter, expires_at=None if valid is None else now + round(valid * SECOND)
        )
