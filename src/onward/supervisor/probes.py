"""Probes and metrics of a worker: ``/livez``, ``/readyz``, ``/metrics``, and a file that it touches while it is well.

*Live*: the supervisor's loop turns and no worker process is silent for too long.  Not whether the store answers: a restart
ends no outage.  *Ready*: an application was imported, the store has answered within a lease, and the worker does not stop.

The loop writes to `Probes`, the thread of `onward.supervisor.http` reads.  The store is looked at on a thread of its own, so
that one which does not answer delays no probe.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from onward.backend import Backend
from onward.base.logs import get_logger
from onward.config import Settings
from onward.errors import BackendError
from onward.operate.store_metrics import LOOK_EVERY, look_at
from onward.supervisor.boards import Boards
from onward.supervisor.http import HttpServer, ProbeAnswer
from onward.supervisor.options import SupervisorOptions
from onward.telemetry import families
from onward.telemetry.exposition import CONTENT_TYPE, FamilyValues, MetricValue, build_info, exposition, of_numbers

__all__ = ["CAUSES", "Probes"]

logger = get_logger("onward.supervisor")

CAUSES = {
    "crash": "it exited, or a signal ended it",
    "out_of_memory": "the kernel killed it because memory ran out",
    "failed_start": "it ended before the application was imported, or cannot serve it",
    "silence": "its engine did nothing for `--max-silence`",
    "timeout": "a job ignored its time-out",
    "max_rss": "it occupied more memory than `--max-rss`",
    "max_jobs": "it ran `--max-jobs-per-process`",
    "reload": "the code changed, with `--reload`",
}
"""Why a worker process was replaced: the values of the label ``cause``."""

_LOOP_TURNS_WITHIN = 30.0  # seconds; the loop turns every second
_HEARTBEAT_EVERY = 10.0


class Probes:
    """What a supervisor tells of itself.  Without ``--listen`` and ``--heartbeat`` no thread is started."""

    def __init__(self, options: SupervisorOptions, boards: Boards, open_store: Callable[[Settings], Backend]) -> None:
        self._options = options
        self._boards = boards
        self._server: HttpServer | None = None
        self._look = StoreLook(open_store, done=self._wake)
        self._turned_at = time.monotonic()
        self._next_beat = 0.0
        self._silent = ""
        self._restarts = dict.fromkeys(CAUSES, 0)
        self.stopping = False
        self.store_fresh: Callable[[], bool] = lambda: False  # whether the store has answered within a lease

    def start(self) -> None:
        listening = self._options.listening
        if listening is not None or self._options.heartbeat is not None:
            self._server = HttpServer(listening, self._answer, every_second=self._beat)
            self._server.start()
        if listening is not None:
            host, port = listening.getsockname()[:2]
            logger.info("listening on http://%s:%d", f"[{host}]" if ":" in host else host, port)

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
        self._look.close()

    def _wake(self) -> None:
        if self._server is not None:
            self._server.wake()

    # The supervisor's loop tells

    def serves(self, settings: Settings, store_fresh: Callable[[], bool]) -> None:
        """The first application was imported: this is its store."""
        self._look.settings = settings
        self.store_fresh = store_fresh

    def turned(self, silent: Sequence[object]) -> None:
        """The loop turns; these processes were silent for too long."""
        self._turned_at = time.monotonic()
        self._silent = ", ".join(map(str, silent))

    def restarted(self, cause: str) -> None:
        self._restarts[cause] += 1

    # The server's thread answers

    def not_live(self) -> str | None:
        """Return what is wrong with the worker; None: nothing."""
        late = time.monotonic() - self._turned_at
        if late > _LOOP_TURNS_WITHIN:
            return f"the supervisor's loop has not turned for {late:.0f} s"
        return f"silent: {self._silent}" if self._silent else None

    def not_ready(self) -> str | None:
        """Return why the worker claims nothing, or cannot; None: it can."""
        if self.stopping:
            return "the worker stops"
        if self._look.settings is None:
            return "no application was imported yet"
        return self.not_live() or (None if self.store_fresh() else "the store does not answer")

    def _answer(self, path: str, must: bool) -> ProbeAnswer | None:
        match path:
            case "/livez":
                return _told(self.not_live())
            case "/readyz":
                return _told(self.not_ready())
            case "/metrics":
                if not must and self._look.is_under_way():
                    return None
                return ProbeAnswer(200, exposition(self._samples()), CONTENT_TYPE)
            case _:
                return ProbeAnswer(404, "there are /metrics, /livez and /readyz\n")

    def _samples(self) -> Iterator[FamilyValues]:
        yield from of_numbers(self._boards.counted())
        seen = self._boards.gauges()
        yield families.PROCESSES, [MetricValue((), seen.processes)]
        yield families.SLOTS, [MetricValue((), seen.processes * self._options.process.concurrency)]
        yield families.SLOTS_BUSY, [MetricValue((), seen.begun)]
        yield families.RESTARTS, [MetricValue((cause,), count) for cause, count in self._restarts.items()]
        turns = seen.totals.turns, seen.totals.turn_micros / 1_000_000
        yield families.TURN_SECONDS, [MetricValue((), turns)]
        yield families.STORE_UP, [MetricValue((), int(self.store_fresh()))]
        yield families.EVENTS_DROPPED, [MetricValue((), seen.totals.events_dropped)]
        yield build_info()
        yield from self._look.samples

    def _beat(self) -> None:
        """Touch the heartbeat file, if the worker is well and it is time."""
        file, now = self._options.heartbeat, time.monotonic()
        if file is None or now < self._next_beat or self.not_live() is not None:
            return
        self._next_beat = now + _HEARTBEAT_EVERY
        try:
            Path(file).touch()
        except OSError as error:
            logger.warning("the heartbeat file cannot be touched: %s", error)


class StoreLook:
    """Looks at the store when it is asked to, on a thread that ends with the look."""

    def __init__(self, open_store: Callable[[Settings], Backend], done: Callable[[], None]) -> None:
        self._open_store = open_store
        self._done = done
        self.settings: Settings | None = None
        self.samples: Sequence[FamilyValues] = ()
        self._store: Backend | None = None
        self._begun_at = float("-inf")
        self._looking = False
        self._closed = False

    def is_under_way(self) -> bool:
        """Begin a look if the last one is too old.  Returns whether one is under way."""
        due = time.monotonic() - self._begun_at >= LOOK_EVERY
        if due and self.settings is not None and not self._looking and not self._closed:
            self._looking, self._begun_at = True, time.monotonic()
            threading.Thread(target=self._run, args=(self.settings,), name="onward-look", daemon=True).start()
        return self._looking

    def close(self) -> None:
        self._closed = True
        if self._store is not None and not self._looking:  # else it waits for an answer, and closing would wait too
            self._store.close()

    def _run(self, settings: Settings) -> None:
        try:
            if self._store is None:
                self._store = self._open_store(settings)
            self.samples = look_at(self._store)
        except (BackendError, OSError):  # the store thread logs an outage; old numbers would look like new ones
            self.samples = ()
        except Exception:
            self.samples = ()
            logger.exception("the store could not be looked at for metrics")
        finally:
            self._looking = False
            self._done()


def _told(problem: str | None) -> ProbeAnswer:
    return ProbeAnswer(200, "ok\n") if problem is None else ProbeAnswer(503, f"{problem}\n")
