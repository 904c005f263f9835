"""The parts of one application: what enqueues at once, what steers and what runs jobs when it is first asked for."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onward.backend import Inline
from onward.base import forks
from onward.base.clock import Clock
from onward.client.bound_job import bind
from onward.client.laning import Lanes
from onward.config import Settings
from onward.job.envelope import Sealed
from onward.job.states import State
from onward.wiring.producer import Producer

if TYPE_CHECKING:
    from onward.handlers import Configured
    from onward.transactions.joining import Joins
    from onward.wiring.engine import Engine
    from onward.wiring.operators import Operators
    from onward.worker.options import WorkerOptions
    from onward.worker.worker import Worker

__all__ = ["Parts"]


class Parts:
    """The parts of one application."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock | None,
        handlers: Mapping[str, Configured],
        queue_handlers: Mapping[str, Sequence[str]] | None,
        lanes: Lanes,
    ) -> None:
        self._operators: Operators | None = None
        self._engine: Engine | None = None
        self._joins: Joins | None = None
        self._stopped = False
        self._begin_anew()
        forks.call_in_child(self._begin_anew)
        self._workers: weakref.WeakSet[Worker] = weakref.WeakSet()  # those that run are held by their threads
        self.producer = Producer(
            settings,
            clock,
            queue_handlers,
            lanes,
            unverified=self._tell_unverified,
            cancel=self._cancel,
            hopeless=self._is_hopeless,
        )
        if handlers:
            self.producer.add_handlers(handlers)
        if isinstance(self.producer.backend, Inline):
            self.producer.client.after_enqueue = self.engine.runner.run_inline
            self.operators.schedules.run_due = self.engine.runner.run_due

    def _begin_anew(self) -> None:
        self._making = threading.RLock()  # two threads may ask at once, and a runner has sessions: there is one

    @property
    def operators(self) -> Operators:
        """What looks at jobs and steers them."""
        if self._operators is None:
            with self._making:
                if self._operators is None:
                    from onward.wiring.operators import Operators

                    self._operators = Operators(self.producer)
        return self._operators

    @property
    def engine(self) -> Engine:
        """What runs jobs."""
        if self._engine is None:
            with self._making:
                if self._engine is None:
                    from onward.wiring.engine import Engine

                    engine = Engine(self.producer, self.operators, self.joins)
                    if self._stopped:
                        engine.runner.close()
                    self._engine = engine
        return self._engine

    @property
    def joins(self) -> Joins:
        """What transactions share."""
        if self._joins is None:
            with self._making:
                if self._joins is None:
                    from onward.transactions.joining import Joins

                    self._joins = Joins(self.producer.backend, self.producer.client, self.producer.handles)
        return self._joins

    def bind(self, options: Mapping[str, Any], function: Callable[..., Any]) -> Any:
        """Make a function a job, and declare the schedules that were said below."""
        job = bind(function, options, self.producer.client, self.producer.handles)
        self.producer.declarations.adopt(function, job)
        return job

    def worker(self, options: WorkerOptions) -> Worker:
        """Make a worker on threads of this process."""
        worker = self.engine.worker(options)
        self._workers.add(worker)
        return worker

    def running_workers(self) -> list[Worker]:
        """Return the workers of this process that have not stopped."""
        return [worker for worker in list(self._workers) if worker.running]

    def stop(self) -> list[Worker]:
        """Stop the workers and end the session of this process; return the workers that ran."""
        workers = self.running_workers()
        if workers:
            from onward.worker.worker import stop_all

            stop_all(workers)
        with self._making:
            self._stopped = True
        if self._engine is not None:
            self._engine.runner.close()
        return workers

    def close_store(self) -> None:
        """Close the store and stop looking at the file of the keys."""
        self.producer.keys.close()
        self.producer.backend.close()

    def _cancel(self, *args: Any, **options: Any) -> State | None:
        return self.operators.inspector.cancel(*args, **options)

    def _tell_unverified(self, sealed: Sealed, problem: str) -> None:
        self.operators.reporter.unverified(sealed, problem)

    def _is_hopeless(self) -> bool:
        """Return whether a job that waits can never be run: no other process sees it, and no worker runs in this one."""
        return not self.producer.backend.capabilities.shared and not self.running_workers()
