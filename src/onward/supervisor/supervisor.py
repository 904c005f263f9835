"""The supervisor: a process in which no user code runs, and the worker processes under it.

    starting ──hello──▶ running ──signal, or all is done──▶ draining ──second signal, deadline──▶ killing ──▶ ended

**The loop** never waits for the store or for a worker process: it reads signals and messages, collects processes that have
exited, and checks the running ones once a second.  Only the store thread (`onward.supervisor.store_thread`) calls the
store; it renews the sessions of the processes, so a handler that holds the interpreter's lock for minutes keeps its leases.

**A process that died.**  The supervisor waits for it before it gives back any of its leases: until then its code may run.
A job that the process had begun (`onward.supervisor.run_board`) gets a crash and the cause, its other jobs go back without
one.  If the supervisor killed the process, to stop or to recycle it, no job crashed: all go back as interrupted.  If a
process cannot be started, or cannot import the application while others can, the supervisor tries again after a pause that
grows.

**A job that ignores its time-out** past a grace makes the supervisor recycle its process: a replacement starts, the process
claims nothing more and its other jobs finish; then the supervisor kills it, and another process adopts its session, where
the overdue job is a failed attempt like any other (`onward.supervisor.pending_messages`).  If the pump has stopped as
well, the other jobs cannot finish, and the supervisor does not wait for them.

**Stopping.**  After the first signal the processes drain: they release what has not begun and finish what runs; at the
shutdown time-out the supervisor kills them and gives their jobs back.  After the second it kills them at once.  After the
third it exits, and leases expire.  Processes that lose their supervisor drain by themselves.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import time
from collections.abc import Callable, Sequence

from onward.backend import Backend, Held, Reaped
from onward.base.ipc import IpcMessage, MalformedMessage
from onward.base.logs import get_logger
from onward.config import Settings
from onward.supervisor.boards import Boards
from onward.supervisor.fleet import Fleet
from onward.supervisor.mailbox import Mailbox
from onward.supervisor.messages import Draining, Failed, Hello, Renewed, Rescued, RescueReported, SessionAdopted
from onward.supervisor.options import ENGINE_FAILED, SupervisorOptions
from onward.supervisor.pending_messages import PendingMessages, SessionHandovers
from onward.supervisor.posix_signals import Signals
from onward.supervisor.probes import Probes
from onward.supervisor.process import WorkerProcess, next_exited, oom_kills
from onward.supervisor.reload import Watcher
from onward.supervisor.store_thread import DeadSessions, StoreThread
from onward.supervisor.subreaper import become_subreaper
from onward.supervisor.systemd import notify, watchdog_interval
from onward.supervisor.template import WorkerTemplate

__all__ = ["Supervisor"]

logger = get_logger("onward.supervisor")

_CHECK_EVERY = 1.0
_MOST_FAILED_STARTS = 3
_STUCK_AFTER = 10.0  # seconds without a beat, when a job is overdue
_GIVE_BACK_WITHIN = 10.0  # seconds before the exit, for the leases of processes that died
_STOPPED = "its worker was stopped"


class Supervisor:
    """Runs worker processes until it is told to stop or they have done all there is to do."""

    def __init__(self, options: SupervisorOptions, *, open_store: Callable[[Settings], Backend]) -> None:
        self._options = options
        self._open_store = open_store
        self._selector = selectors.DefaultSelector()
        template = options.template_program and WorkerTemplate(
            options.template_program, options.process, self._selector
        )
        self._fleet = Fleet(options.program, options.process, options.processes, template=template or None)
        self._handovers = SessionHandovers()
        self._reports: PendingMessages[int] = PendingMessages()  # of leases that were given back, to tell subscribers
        self._reports_made = 0
        self._store_thread: StoreThread | None = None
        self._boards = Boards(self._fleet, handed_over=self._handovers.open)
        self._probes = Probes(options, self._boards, open_store)
        self._mailbox = Mailbox()
        self._watcher = Watcher() if options.reload else None
        self._awaits_change = False
        self._check_at = 0.0
        self._oom_kills = oom_kills()
        self._signals_received = 0
        self._deadline: float | None = None  # set when stopping
        self._code = 0

    def run(self) -> int:
        """Run until the end.  Returns the exit code.  If this raises, the worker processes notice it, and drain."""
        become_subreaper()
        with (
            Signals((signal.SIGTERM, signal.SIGCHLD), if_heeded=(signal.SIGINT, signal.SIGHUP)) as signals,
            self._selector,
            self._mailbox,
        ):
            self._selector.register(signals, selectors.EVENT_READ)
            self._selector.register(self._mailbox, selectors.EVENT_READ)
            self._probes.start()
            try:
                while not self._finished():
                    self._start_due()
                    self._selector.select(self._pause())
                    for number in signals.received():
                        self._on_signal(number)
                    self._let_forked_begin()
                    for process in self._fleet:
                        self._read_messages(process)
                    self._collect_exited()
                    self._mailbox.deliver()
                    self._check_processes()
            finally:
                self._close()
        return self._code

    @property
    def _stopping(self) -> bool:
        return self._deadline is not None

    @property
    def _may_start(self) -> bool:
        if self._options.process.until_empty and self._store_thread is not None and self._store_thread.busy:
            return False  # a process that starts before all is given back finds nothing to do, and ends
        return not (self._stopping or self._awaits_change)

    def _pause(self) -> float:
        """Return the seconds until the next timed action."""
        now, due = time.monotonic(), self._check_at
        if self._may_start:
            due = min(due, self._fleet.next_start())
        if self._deadline is not None and self._deadline > now:
            due = min(due, self._deadline)
        return max(0.0, due - now)

    # Starting

    def _start_due(self) -> None:
        if self._may_start:
            for process in self._fleet.start_due():
                self._selector.register(process.channel, selectors.EVENT_READ)

    def _let_forked_begin(self) -> None:
        for process in self._fleet.forked():
            self._selector.register(process.channel, selectors.EVENT_READ)
            if self._stopping:
                process.kill(_STOPPED)

    def _on_hello(self, process: WorkerProcess, hello: Hello) -> None:
        process.hello = hello
        self._fleet.failed_starts = 0
        if self._watcher is not None:
            self._watcher.watch(hello.files)
        if self._store_thread is None:
            self._start_store_thread(hello)
        self._assign_pending()

    def _start_store_thread(self, hello: Hello) -> None:
        self._store_thread = StoreThread(
            self._open_store,
            hello.settings,
            hello.queues,
            processes=self._boards,
            renewed=lambda number, message: self._mailbox.post(lambda: self._tell(number, message)),
            rescued=lambda reaped: self._mailbox.post(lambda: self._on_rescued(reaped)),
            gave_back=self._mailbox.post,
            died=_die,
        )
        self._store_thread.start()
        self._probes.serves(hello.settings, self._store_thread.is_fresh)
        width = f"{len(self._fleet)} x {self._options.process.concurrency}"
        queues, jobs = ", ".join(hello.queues), ", ".join(hello.jobs) or "none"
        logger.info("ready: %s; queues: %s; jobs: %s", width, queues, jobs)
        notify("READY=1")

    # Signals and messages

    def _on_signal(self, number: signal.Signals) -> None:
        if number is signal.SIGCHLD:
            return  # exited processes are collected in every round
        self._signals_received += 1
        if self._signals_received == 1:
            patience = f"{self._options.process.shutdown_timeout:g} s"
            self._drain(f"{number.name}; jobs that run have {patience}, and with a second signal none")
        elif self._signals_received == 2:
            logger.warning("%s again: running jobs are killed and given back", number.name)
            self._kill_all(_STOPPED)
        else:
            os._exit(128 + signal.SIGTERM)

    def _read_messages(self, process: WorkerProcess) -> None:
        try:
            arrived = process.channel.arrived()
        except MalformedMessage as error:
            process.kill(f"it sent a malformed message: {error}", crash=True)
            arrived = None
        if arrived is None:
            self._stop_reading(process)
        for message in arrived or ():
            self._on_message(process, message)

    def _on_message(self, process: WorkerProcess, message: IpcMessage) -> None:
        match message:
            case Hello():
                self._on_hello(process, message)
            case Failed():
                self._on_failed(process, message)
            case Draining(reason, done):
                process.draining, process.recycled_for = True, None if done else "max_jobs"
                logger.info("%s: %s", process, reason)
                self._fleet.retire(process, done=done)
            case SessionAdopted(owner):
                self._handovers.done(owner)
            case RescueReported(number):
                self._reports.done(number)

    def _on_failed(self, process: WorkerProcess, failed: Failed) -> None:
        problem, _, traceback = failed.message.partition("\n")
        logger.log_traceback(logging.ERROR, "%s", problem, traceback=traceback)
        self._fleet.failed_starts = 0
        process.recycled_for = "failed_start"
        process.kill("it cannot serve the application")  # threads that it has started may keep it running
        if self._watcher is not None:
            self._fleet.retire(process)
            self._watcher.watch(failed.files)
            self._awaits_change = True
        elif not (self._store_thread is not None and (failed.passing or self._serving() is not None)):
            self._drain("the application cannot be served", code=failed.code)

    def _tell(self, number: int, message: Renewed) -> None:
        for process in self._fleet:
            if process.number == number:
                process.tell(message)

    def _on_rescued(self, reaped: Sequence[Reaped]) -> None:
        self._reports_made += 1
        self._reports.add(self._reports_made, Rescued(number=self._reports_made, reaped=list(reaped)))
        self._assign_pending()

    def _stop_reading(self, process: WorkerProcess) -> None:
        if process.channel in self._selector.get_map():
            self._selector.unregister(process.channel)

    # Processes that have exited

    def _collect_exited(self) -> None:
        while (pid := next_exited()) is not None:
            if self._fleet.template_exited(pid):
                continue
            process = self._fleet.by_pid(pid)
            if process is None:  # a process whose parent died, and which became a child of this process
                os.waitpid(pid, 0)
                continue
            self._read_messages(process)  # those that it sent before its end
            self._stop_reading(process)
            self._on_exit(process, process.collect_exited())

    def _on_exit(self, process: WorkerProcess, code: int) -> None:
        killed_before, self._oom_kills = self._oom_kills, oom_kills()
        out_of_memory = self._oom_kills > killed_before
        cause = process.cause_of_death(code, out_of_memory=out_of_memory)
        replaced = None if self._stopping else process.why_replaced(code, out_of_memory=out_of_memory)
        if replaced is not None:
            self._probes.restarted(replaced)
        polite = code == 0 and process.hello is not None
        if not polite and process.killed is None:
            logger.error("%s died: %s", process, cause)
        elif process.crashed and process.killed is not None:
            logger.error("%s was killed: %s", process, cause)
        owners, begun = self._boards.remove(process, lambda: self._fleet.remove(process, polite=polite))
        # `collect_exited` has killed a job that had a process of its own: it was interrupted, and did not crash.
        held: list[Held] = [(each.id, each.token) for each in begun if not each.pid]
        overdue = [each for each in held if each in process.overdue]
        if overdue:
            self._handovers.hand_over(owners, overdue, [each for each in held if each not in overdue])
        elif self._store_thread is not None and owners:
            self._store_thread.give_back(DeadSessions(owners, held if process.crashed else [], cause))
        self._handovers.died(process)
        self._reports.died(process)
        self._assign_pending()
        if self._fleet.failed_starts >= _MOST_FAILED_STARTS and self._store_thread is None:
            self._drain(f"{_MOST_FAILED_STARTS} processes ended before the application was imported: {cause}", code=1)

    def _serving(self) -> WorkerProcess | None:
        """Return a process that has started and does not drain."""
        return next((each for each in self._fleet if each.hello is not None and not each.draining), None)

    def _assign_pending(self) -> None:
        serving = self._serving()
        if serving is not None:
            self._handovers.assign(serving)
        elif self._stopping and self._store_thread is not None:
            for owner in self._handovers.give_up():
                self._store_thread.give_back(DeadSessions([owner], [], _STOPPED))
        listener = serving or next((each for each in self._fleet if each.hello is not None), None)
        if listener is not None:
            self._reports.assign(listener)

    # Processes that run

    def _check_processes(self) -> None:
        now = time.monotonic()
        if self._deadline is not None and now >= self._deadline:
            self._kill_all(_STOPPED)
        if now < self._check_at:
            return
        self._check_at = now + min(_CHECK_EVERY, watchdog_interval() or _CHECK_EVERY)
        self._oom_kills = oom_kills()
        if watchdog_interval() is not None:
            notify("WATCHDOG=1")
        silent: list[WorkerProcess] = []
        for process in self._fleet:
            process.channel.flush()
            if self._is_silent(process):
                silent.append(process)
            self._check_overdue(process)
            self._check_memory(process)
        self._probes.turned(silent)
        if self._watcher is not None and not self._stopping and self._watcher.changed():
            self._reload()

    def _is_silent(self, process: WorkerProcess) -> bool:
        silence = process.silent_for()
        if silence > self._options.max_silence:
            process.recycled_for = "silence"
            process.kill(f"its pump made no turn for {silence:.0f} s", crash=True)
        return silence > self._options.max_silence

    def _check_overdue(self, process: WorkerProcess) -> None:
        overdue = process.look_for_overdue(self._options.timeout_grace)
        if not overdue:
            return
        if not process.draining:
            ignoring = ", ".join(job_id for job_id, _ in overdue)
            logger.error("%s is recycled: a job ignores its time-out: %s", process, ignoring)
            self._recycle(process, "timeout")
        if process.runs_only(overdue) or process.silent_for() > _STUCK_AFTER:
            process.kill("a job ignored its time-out")

    def _check_memory(self, process: WorkerProcess) -> None:
        limit = self._options.max_rss
        if limit is not None and process.hello is not None and not process.draining and (rss := process.rss()) > limit:
            logger.info("%s is recycled: it occupies %d MB", process, rss // 2**20)
            self._recycle(process, "max_rss")

    def _recycle(self, process: WorkerProcess, cause: str) -> None:
        """Start another process in its place.  No job is interrupted: this one ends after its jobs, whenever that is."""
        process.recycled_for = cause
        process.stop()
        self._fleet.retire(process)

    def _reload(self) -> None:
        logger.info("the code has changed: reloading")
        self._awaits_change = False
        self._fleet.end_template()
        for process in self._fleet:
            if not process.draining:
                self._recycle(process, "reload")

    # Stopping

    def _drain(self, reason: str, *, code: int = 0) -> None:
        if self._stopping:
            return
        logger.info("stopping: %s", reason)
        self._probes.stopping = True
        notify("STOPPING=1")
        self._deadline = time.monotonic() + self._options.process.shutdown_timeout
        self._code = code
        self._fleet.end()
        for process in self._fleet:
            if process.hello is None:
                process.kill(_STOPPED)  # it has claimed nothing yet
            else:
                process.stop()

    def _kill_all(self, because: str) -> None:
        self._fleet.end_template()
        for process in self._fleet:
            process.kill(because)

    def _finished(self) -> bool:
        if not self._fleet.done:
            return False
        if self._store_thread is None or not (self._store_thread.busy or self._mailbox.waiting):
            return True
        if self._deadline is None:
            self._deadline = time.monotonic()
        return time.monotonic() > self._deadline + _GIVE_BACK_WITHIN

    def _close(self) -> None:
        self._probes.stop()
        if self._store_thread is not None:
            self._store_thread.stop()


def _die(error: BaseException) -> None:
    """Exit: the store thread died.  The worker processes notice that the supervisor is gone, and drain."""
    logger.critical("the supervisor ends, its store thread died: %s: %s", type(error).__name__, error, exc_info=error)
    os._exit(ENGINE_FAILED)
