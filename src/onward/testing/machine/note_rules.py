"""What the machine does with notes and signals, where the backend keeps any."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from onward.backend import Lease
from onward.testing.machine.asking import AskedModel
from onward.testing.machine.comparing import agree
from onward.testing.machine.drawing import numbers, signal_names

__all__ = ["NoteRules"]


class NoteRules(RuleBasedStateMachine):
    """The commands of `Notes`, for `ContractMachine`."""

    backend: Any
    model: AskedModel
    ids: list[str]
    leases: list[Lease]

    @abstractmethod
    def _both(self, verb: str, *args: Any, **options: Any) -> Any: ...

    @abstractmethod
    def _count(self, command: str, *outcomes: str) -> None: ...

    @abstractmethod
    def _lease(self, number: int, owner: str | None = None) -> Lease: ...

    @abstractmethod
    def _some_ids(self, which: Iterable[int]) -> list[str]: ...

    @precondition(lambda self: self.leases and self.backend.capabilities.notes)
    @rule(number=numbers, name=st.sampled_from(("=a", "=b")), value=st.sampled_from((b"1", b"2")))
    def note(self, number: int, name: str, value: bytes) -> None:
        applied = self._both("note", self._lease(number), name, value)
        self._count("note" if applied else "note of a lost lease")

    @precondition(lambda self: self.ids and self.backend.capabilities.notes)
    @rule(number=numbers, name=signal_names, again=st.booleans(), at_most=st.sampled_from((1000, 1000, 1000, 1)))
    def signal(self, number: int, name: str, again: bool, at_most: int) -> None:
        (job_id,) = self._some_ids([number])
        self._signal(job_id, name, again=again, at_most=at_most)

    @precondition(lambda self: self.model.waiting_for_signals())
    @rule(number=numbers, again=st.booleans())
    def signal_to_a_waiter(self, number: int, again: bool) -> None:
        waiting = self.model.waiting_for_signals()
        job = waiting[number % len(waiting)]
        self._signal(job.id, job.awaits or "", again=again, at_most=1000)

    def _signal(self, job_id: str, name: str, *, again: bool, at_most: int) -> None:
        value = b"%d" % sum(len(notes) for notes in self.model.written.values())  # tells one from the next
        answer = self._both("signal", job_id, name, value, again=again, at_most=(at_most, 9))
        outcomes = [word for word in ("stored", "woken", "full") if getattr(answer, word)]
        self._count("signal", f"signal to {answer.state}", *(f"signal {word}" for word in outcomes))

    @invariant()
    def all_notes_are_the_same(self) -> None:
        if self.backend.capabilities.notes:
            for job_id in {*self.ids, *self.model.live, *self.model.finished}:
                agree(f"notes of {job_id}", list(self.backend.notes(job_id)), self.model.notes(job_id))
