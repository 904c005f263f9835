"""`AsyncResult` and `GroupResult`: an enqueued task, and many, from the caller's side."""

from __future__ import annotations

import builtins
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from onward.client.record import JobRecord, RunError
from onward.compat.celery.current import CURRENT
from onward.compat.celery.protocols import OfApplication
from onward.compat.celery.refusing import refusing
from onward.errors import ArgumentError, JobCancelledError, JobDiscardedError, JobNotFound, OptionError, ResultTimeout
from onward.job.states import State

if TYPE_CHECKING:
    from onward.client.bound_job import JobHandle

__all__ = ["AsyncResult", "GroupResult"]

_STATES = {
    State.SCHEDULED: "PENDING",
    State.AVAILABLE: "PENDING",
    State.EXECUTING: "STARTED",
    State.RETRYABLE: "RETRY",
    State.COMPLETED: "SUCCESS",
    State.DISCARDED: "FAILURE",
    State.CANCELLED: "REVOKED",
}
_READY = ("SUCCESS", "FAILURE", "REVOKED")
_RECORD = "result.onward.record() has all that is known of the job"
_FLOW = "app.onward.flows.get(result.onward.record().flow) has the parts of a canvas"
_NOT_HERE = {
    **dict.fromkeys(("date_done", "name", "args", "kwargs", "worker", "retries", "queue"), _RECORD),
    **dict.fromkeys(("children", "collect", "iterdeps", "graph", "build_graph", "get_leaf", "root"), _FLOW),
    "ignored": "result.get() is None where no result is kept",
    "then": "say what comes after with a chain: (task.s() | after.s())",
    **dict.fromkeys(("backend", "supports_native_join"), "results are in the store of the application"),
    **dict.fromkeys(("maybe_throw", "maybe_reraise", "throw"), "write result.get()"),
    **dict.fromkeys(("as_tuple", "as_list"), "keep result.id: AsyncResult(id) finds it again"),
}
_NOT_IN_GROUPS = {
    "children": "read result.results",
    **dict.fromkeys(("join_native", "iter_native", "iterate"), "write result.get()"),
    **dict.fromkeys(("maybe_throw", "maybe_reraise"), "write result.get()"),
    **dict.fromkeys(("waiting", "supports_native_join"), "write result.ready()"),
    **dict.fromkeys(("add", "remove", "discard", "update", "clear"), "keep a list of results"),
    **dict.fromkeys(
        ("save", "restore", "delete", "forget", "as_tuple"),
        "keep the ids of its results: AsyncResult(id) finds each, until it is pruned with its job",
    ),
    "then": "say what comes after with a chord: (group(…) | after.s())",
    **dict.fromkeys(("backend", "app"), "results are in the store of the application"),
}
__getattr__ = refusing(
    "result",
    {
        "EagerResult": "a call returns an AsyncResult, with task_always_eager, too",
        "ResultBase": "AsyncResult and GroupResult are the classes of results",
        "ResultSet": "keep a list of results",
        "result_from_tuple": "keep result.id: AsyncResult(id) finds it again",
        **dict.fromkeys(
            ("allow_join_result", "denied_join_result", "assert_will_not_block"),
            "leave it out: a task may wait for another; a chain or a chord needs no waiting",
        ),
    },
)


class AsyncResult:
    """An enqueued task, by its id.  ``parent`` is what comes before it in a chain."""

    TimeoutError = ResultTimeout

    def __init__(
        self,
        id: str,  # noqa: A002  Celery's word
        *,
        app: OfApplication | None = None,
        parent: AsyncResult | GroupResult | None = None,
    ) -> None:
        self.id = id
        self.parent = parent
        self._app = app

    @property
    def task_id(self) -> str:
        return self.id

    @property
    def onward(self) -> JobHandle[Any]:
        """The handle of the job: everything that Onward knows about it."""
        return (self._app or CURRENT.app).onward.handle(self.id)

    @property
    def state(self) -> str:
        """``PENDING``, ``STARTED``, ``RETRY``, ``SUCCESS``, ``FAILURE`` or ``REVOKED``.  An unknown id is ``PENDING``."""
        record = self._record()
        return "PENDING" if record is None else _STATES.get(record.state, "PENDING")

    status = state

    def ready(self) -> bool:
        return self.state in _READY

    def successful(self) -> bool:
        return self.state == "SUCCESS"

    def failed(self) -> bool:
        return self.state == "FAILURE"

    def get(
        self,
        timeout: float | None = None,
        propagate: bool = True,
        interval: float | None = None,
        disable_sync_subtasks: bool = True,
    ) -> Any:
        """Wait for the end of the task and return its result; raise what it raised, or what one before it in a chain did.

        With ``propagate=False`` the exception is returned.  ``interval`` and ``disable_sync_subtasks`` have no effect.
        """
        try:
            return self.onward.result(timeout)
        except (JobDiscardedError, JobCancelledError) as error:
            raised = self._raised(error)
            if propagate:
                raise raised from error
            return raised

    wait = get

    def _raised(self, error: JobDiscardedError | JobCancelledError) -> Exception:
        """Return the exception that ended the task: of a task that was cancelled with its chain, that of the one before."""
        if isinstance(error, JobDiscardedError):
            record = self._record()
            return error if record is None or not record.errors else _as_exception(record.errors[-1], error)
        before = None if self.parent is None else self.parent.failure()
        return error if before is None else before

    def failure(self) -> Exception | None:
        """Return what ended the task, or a chain before it, without a result; None if nothing did."""
        if self.state not in ("FAILURE", "REVOKED"):
            return None
        found = self.get(timeout=0, propagate=False)
        return found if isinstance(found, Exception) else None

    @property
    def result(self) -> Any:
        """The result of a task that has ended, or its exception; None before."""
        return self.get(timeout=0, propagate=False) if self.ready() else None

    info = result

    @property
    def traceback(self) -> str | None:
        """The traceback of the last run that failed."""
        record = self._record()
        return record.errors[-1].traceback if record is not None and record.errors else None

    def revoke(self, terminate: bool = False) -> None:
        """Cancel the task if it waits; one that runs is asked to stop only with ``terminate``."""
        record = self._record()
        if record is not None and (terminate or record.state is not State.EXECUTING):
            self.onward.cancel("revoked")

    def forget(self) -> None:
        """Do nothing: results are pruned with their jobs, when their retention is over."""

    def _record(self) -> JobRecord | None:
        try:
            return self.onward.record()
        except (JobNotFound, ArgumentError):
            return None

    if not TYPE_CHECKING:  # to a type checker, there would be every attribute

        def __getattr__(self, name: str) -> Any:
            if name in _NOT_HERE:
                raise OptionError(f"a result has no {name!r} here: {_NOT_HERE[name]}")
            raise AttributeError(f"a result has no attribute {name!r} here")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncResult) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __str__(self) -> str:
        return self.id

    def __repr__(self) -> str:
        return f"<AsyncResult {self.id}>"


class GroupResult:
    """The results of a group, in its order.  ``id`` is that of its flow."""

    def __init__(
        self,
        id: str,  # noqa: A002  Celery's word
        results: Sequence[AsyncResult | GroupResult],
        parent: AsyncResult | GroupResult | None = None,
    ) -> None:
        self.id = id
        self.results = list(results)
        self.parent = parent

    def get(self, timeout: float | None = None, propagate: bool = True) -> list[Any]:
        """Wait for all of them and return their results; raise what the first that failed raised."""
        until = None if timeout is None else time.monotonic() + timeout
        return [
            each.get(None if until is None else max(0.0, until - time.monotonic()), propagate=propagate)
            for each in self.results
        ]

    join = get

    def ready(self) -> bool:
        return all(each.ready() for each in self.results)

    def successful(self) -> bool:
        return all(each.successful() for each in self.results)

    def failed(self) -> bool:
        return any(each.failed() for each in self.results)

    def completed_count(self) -> int:
        return sum(each.successful() for each in self.results)

    def failure(self) -> Exception | None:
        """Return what ended the first of them that has no result; None if nothing did."""
        return next((found for each in self.results if (found := each.failure()) is not None), None)

    def revoke(self, terminate: bool = False) -> None:
        for each in self.results:
            each.revoke(terminate)

    if not TYPE_CHECKING:  # to a type checker, there would be every attribute

        def __getattr__(self, name: str) -> Any:
            if name in _NOT_IN_GROUPS:
                raise OptionError(f"the result of a group has no {name!r} here: {_NOT_IN_GROUPS[name]}")
            raise AttributeError(f"the result of a group has no attribute {name!r} here")

    def __iter__(self) -> Iterator[AsyncResult | GroupResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, place: int) -> AsyncResult | GroupResult:
        return self.results[place]

    def __repr__(self) -> str:
        return f"<GroupResult {self.id} of {len(self.results)}>"


def _as_exception(error: RunError, otherwise: Exception) -> Exception:
    """Return an exception of the class that a run raised, if this process has loaded it; nothing is imported by name."""
    module, _, name = error.kind.rpartition(".")
    kind = getattr(builtins if not module else sys.modules.get(module), name, None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        return otherwise
    try:
        return kind(_key_in(error.message) if issubclass(kind, KeyError) else error.message)
    except Exception:  # noqa: BLE001  its constructor takes something else
        return otherwise


def _key_in(message: str) -> str | int:
    """Return the text or number that a KeyError was raised with: its message is that, as Python writes it."""
    if len(message) > 1 and message[0] == message[-1] and message[0] in "'\"" and "\\" not in message:
        return message[1:-1]
    return int(message) if message.removeprefix("-").isdecimal() else message
