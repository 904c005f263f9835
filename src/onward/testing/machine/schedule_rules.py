"""What the machine does with schedules, where the backend keeps any."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from onward.backend import Envelope, ScheduleChange, ScheduleRow
from onward.testing.machine.asking import AskedModel
from onward.testing.machine.comparing import agree
from onward.testing.machine.drawing import Options, plans, several

__all__ = ["ScheduleRules"]

names = st.sampled_from(("hourly", "nightly"))


class ScheduleRules(RuleBasedStateMachine):
    """The commands of `Schedules`, for `ContractMachine`."""

    backend: Any
    model: AskedModel

    @abstractmethod
    def _count(self, command: str, *outcomes: str) -> None: ...

    @abstractmethod
    def _envelope(self, plan: Options) -> Envelope: ...

    @abstractmethod
    def _some_ids(self, which: Iterable[int]) -> list[str]: ...

    @precondition(lambda self: self.backend.capabilities.schedules)
    @rule(
        name=names,
        behind=st.sampled_from((0, 0, 0, 1)),
        delete=st.sampled_from((False, False, True)),
        batch=st.lists(plans, max_size=2),
        which=several,
    )
    def change_schedule(self, name: str, behind: int, delete: bool, batch: list[Options], which: list[int]) -> None:
        version = max(0, self.model.version_of(name) - behind)
        taken_back = self._plain_ids(which) if self.model.live else []
        change = ScheduleChange(
            name=name,
            version=version,
            row=None if delete and version else self._row(name),
            take_back=taken_back,
            envelopes=[self._envelope(plan) for plan in batch],
        )
        found, expected = self.backend.change_schedule(change), self.model.change_schedule(change)
        agree("whether the schedule was changed", found, expected)
        self._count("change_schedule" if found else "change_schedule of another version")

    def _plain_ids(self, which: list[int]) -> list[str]:
        """Return ids of jobs that are members of no flow: schedules take back none."""
        jobs = {**self.model.finished, **self.model.live}
        return [each for each in self._some_ids(which) if each not in jobs or jobs[each].envelope.flow is None]

    def _row(self, name: str) -> ScheduleRow:
        booked_until = self.model.now
        return ScheduleRow(
            name=name,
            sealed=b"%d" % booked_until,
            fingerprint=f"{len(self.model.live)}",
            origin="code" if booked_until % 2 else "runtime",
            declared_at=1,
            booked_until=booked_until,
            paused_at=booked_until if len(self.model.live) % 2 else None,
            missed=len(self.model.finished),
        )

    @precondition(lambda self: self.model.live and self.backend.capabilities.schedules)
    @rule(which=several)
    def take_back(self, which: list[int]) -> None:
        ids = self._plain_ids(which)
        found, expected = self.backend.take_back(ids), self.model.take_back(ids)
        agree("what was taken back", sorted(found), sorted(expected))
        self._count("take_back", *["taken back"] * len(found))

    @precondition(lambda self: self.model.rows)
    @rule(seen=st.lists(names, max_size=2))
    def see_schedules(self, seen: list[str]) -> None:
        self.backend.schedules_seen(seen)
        self.model.schedules_seen(seen)
        self._count("schedules_seen")

    @invariant()
    def all_schedules_are_the_same(self) -> None:
        if self.backend.capabilities.schedules:
            agree("schedules()", self.backend.schedules(), self.model.schedules())
