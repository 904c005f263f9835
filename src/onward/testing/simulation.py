"""Running a handler again and again, each time with another accident, to see whether the world looks the same afterwards.

    undisturbed   the handler runs once; what it does to the world, its *effects*, is recorded
    crash         one scenario per effect: right after it the process dies; the job is delivered again, until it ends.
                  What a step of `ctx.step` did is an effect, too: the process dies before that is noted
    duplicate     the handler returns, but its success is never stored; the job is delivered again

Every scenario has an application of its own, in memory and on a clock of its own, and runs through the steps of a worker.
A process that dies is simulated in two moves.  First its session expires and is reaped, so the store takes the job back as
it does after a real crash, and whatever the handler still does it can no longer settle.  Then `Crash` is raised, so that
the handler comes to its end; an effect it tries on the way, in a ``finally`` or after a bare ``except``, does not happen:
dead processes do nothing.
"""

from __future__ import annotations

import copy
import functools
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from onward.app import Onward
from onward.client.bound_job import Job
from onward.client.record import JobRecord
from onward.errors import OptionError
from onward.job.definition import JobDefinition, JobOptions, UsingOptions
from onward.job.lease import Lease
from onward.job.states import State
from onward.testing.calls import AnyJob, arguments_of, function_of
from onward.testing.clock import FakeClock
from onward.testing.effects import Crash, Effect, Effects, Kind, Plan, Recording, text
from onward.worker.event_loop import LoopThread

__all__ = ["Scenario", "Simulation", "simulate"]

_MOST_RUNS = 100
_LEASE = timedelta(seconds=30)


def simulate(
    job: AnyJob,
    /,
    *args: Any,
    effects: Effects | None = None,
    check: Callable[[], Any] | None = None,
    observe: Callable[[], Any] | None = None,
    reset: Callable[[], Any] | None = None,
    using: UsingOptions | None = None,
    **kwargs: Any,
) -> Simulation:
    """Run the job with these arguments undisturbed, with a crash after every effect, and with a duplicate delivery.

    ``reset`` prepares the world before each scenario.  After each one ``check`` may assert whatever must be true, and what
    ``observe`` returns must equal what it returned after the undisturbed run; give one of them or both.  ``using`` are
    options as of `job.using`.  Nothing is raised for a handler that fails: ask the result, with `assert_idempotent`.
    """
    options = {"effects": effects, "check": check, "observe": observe, "reset": reset, "using": using}
    if not isinstance(job, Job):
        raise OptionError(f"simulate takes a job that @jobs.job made, not {job!r:.60}")
    call = arguments_of(job, args, kwargs, [name for name, value in options.items() if value is not None])
    if check is None and observe is None:
        raise OptionError("say what must be true after every scenario: give check or observe")
    with ExitStack() as stack:
        loop = LoopThread()
        stack.callback(loop.close)
        stack.enter_context(_quiet_threads())
        recorder = effects or Effects()
        stack.enter_context(recorder.patched())
        stage = _Stage(job, call, using or {}, recorder, _World(loop, reset, check, observe))
        return _play_all(stage, told_effects=effects is not None)


def _play_all(stage: _Stage, *, told_effects: bool) -> Simulation:
    undisturbed = stage.play(Plan("undisturbed"))
    if undisturbed.passed and told_effects and not undisturbed.effects:
        undisturbed = undisturbed.failed("no effect was recorded: is what the handler calls wrapped or patched?")
    if not undisturbed.passed:
        return Simulation(stage.name, (undisturbed,))
    plans = [Plan("crash", number) for number in range(1, len(undisturbed.effects) + 1)]
    disturbed = [stage.play(plan, like=undisturbed) for plan in (*plans, Plan("duplicate"))]
    return Simulation(stage.name, (undisturbed, *disturbed))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One accident, and what came of it.  ``problem`` is None if nothing was wrong."""

    kind: Kind
    effects: tuple[Effect, ...]
    crashed_after: Effect | None
    runs: int  # how often the handler was started
    state: State  # of the job, in the end
    observed: Any = None
    problem: str | None = None
    error: Exception | None = field(default=None, repr=False)  # what check raised

    @property
    def passed(self) -> bool:
        return self.problem is None

    @property
    def title(self) -> str:
        if self.crashed_after is not None:
            return f"crash right after effect {self.crashed_after.number}, {self.crashed_after}"
        return {"undisturbed": "undisturbed", "crash": "no crash", "duplicate": "duplicate delivery"}[self.kind]

    def failed(self, problem: str, error: Exception | None = None) -> Scenario:
        """Return the same scenario, failed."""
        return replace(self, problem=problem, error=error)

    def __str__(self) -> str:
        return f"{'ok    ' if self.passed else 'FAILED'} {self.title}"


@dataclass(frozen=True, slots=True)
class Simulation:
    """Every scenario that was played, the undisturbed one first.  Printed, one line each."""

    job: str
    scenarios: tuple[Scenario, ...]

    @property
    def passed(self) -> bool:
        return not self.failures

    @property
    def failures(self) -> Sequence[Scenario]:
        return [scenario for scenario in self.scenarios if not scenario.passed]

    def assert_idempotent(self) -> None:
        """Raise one `AssertionError` that tells the first scenario that failed, unless none did."""
        if self.failures:
            first = self.failures[0]
            raise AssertionError(self._story(first)) from first.error

    def _story(self, first: Scenario) -> str:
        happened = {
            "undisturbed": "run once and undisturbed,",
            "crash": f"after a {first.title}, the job ran again and",
            "duplicate": "delivered again after it had succeeded,",
        }[first.kind]
        if first.kind == "crash" and first.runs < 2:
            happened = f"after a {first.title}, the job did not run again and"
        if first.kind == "crash" and first.crashed_after is None:
            happened = "in a run that was to crash,"
        verdict = "fails even without an accident" if first.kind == "undisturbed" else "is not idempotent"
        lines = [f"{self.job} {verdict}: {happened} {first.problem}", *_timeline(first)]
        if len(self.failures) > 1:
            lines.append(f"{len(self.failures)} of {len(self.scenarios)} scenarios failed")
        return "\n".join(lines)

    def __str__(self) -> str:
        return "\n".join(str(scenario) for scenario in self.scenarios)


def _timeline(scenario: Scenario) -> Iterator[str]:
    for effect in scenario.effects:
        yield f"    run {effect.run}: {effect}"
        if effect == scenario.crashed_after:
            yield f"    run {effect.run}: (crash)"


class _World:
    """The user's side of a simulation: each function may be async."""

    def __init__(self, loop: LoopThread, reset: Any, check: Any, observe: Any) -> None:
        self._loop = loop
        self._reset = reset
        self._check = check
        self._observe = observe

    def reset(self) -> None:
        self._call(self._reset)

    def check(self) -> None:
        self._call(self._check)

    def observe(self) -> Any:
        # What is observed may well be the world itself, which the next scenario changes.
        return copy.deepcopy(self._call(self._observe))

    def _call(self, function: Callable[[], Any] | None) -> Any:
        value = None if function is None else function()
        return self._loop.run(_awaited(value)) if inspect.isawaitable(value) else value


class _Stage:
    """Where scenarios are played, one after another."""

    def __init__(
        self,
        job: AnyJob,
        call: tuple[tuple[Any, ...], dict[str, Any]],
        using: UsingOptions,
        effects: Effects,
        world: _World,
    ) -> None:
        self.name = job.name
        self._lend_hooks = job.lend_hooks
        self._function = function_of(job)
        self._options = _options(job.definition)
        self._call = call
        self._using = using
        self._effects = effects
        self._world = world

    def play(self, plan: Plan, like: Scenario | None = None) -> Scenario:
        self._world.reset()
        clock = FakeClock()
        with _application(clock) as app:
            recording = Recording(plan, lambda: _lose_the_lease(app, clock))
            _count_steps(app, recording)
            with self._effects.into(recording):
                record = self._deliver(app, clock, recording)
        scenario = Scenario(
            kind=plan.kind,
            effects=tuple(recording.effects),
            crashed_after=recording.crashed_after,
            runs=len(recording.runs),
            state=record.state,
        )
        return self._judge(scenario, record, plan, like)

    def _deliver(self, app: Onward, clock: FakeClock, recording: Recording) -> JobRecord:
        """Enqueue the job and run it until it has ended, however far away its next run is due."""
        self._lend_hooks(app.client)
        job: AnyJob = app.job(**self._options)(_observed(self._function, recording))
        args, kwargs = self._call
        handle = job.using(**self._using).enqueue(*args, **kwargs)
        record = handle.record()
        with _quiet(handle.id):
            for _ in range(_MOST_RUNS):
                if record.is_finished:
                    break
                clock.set(max(clock.now(), record.available_at))
                app.process_once(record.queue)
                record = handle.record()
        return record

    def _judge(self, scenario: Scenario, record: JobRecord, plan: Plan, like: Scenario | None) -> Scenario:
        if plan.crash_after is not None and scenario.crashed_after is None:
            return scenario.failed(
                f"effect {plan.crash_after} never came: does reset prepare the same world each time, "
                f"and does the handler do the same in it?"
            )
        if not record.is_finished:
            return scenario.failed(f"it had not ended after {_MOST_RUNS} deliveries")
        if record.state is not State.COMPLETED:
            return scenario.failed(f"it ended {record.state}: {_reason(record)}")
        try:
            self._world.check()
        except Exception as error:  # noqa: BLE001  whatever a check raises is its verdict
            return scenario.failed(f"check failed: {type(error).__name__}: {error}".rstrip(": "), error)
        observed = self._world.observe()
        scenario = replace(scenario, observed=observed)
        if like is not None and observed != like.observed:
            return scenario.failed(
                f"the world is not as after an undisturbed run: {text(observed)} instead of {text(like.observed)}"
            )
        return scenario


def _observed(function: Callable[..., Any], recording: Recording) -> Callable[..., Any]:
    """Wrap the handler so that its beginning and its end are recorded."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with recording.run():
            return recording.returned(function(*args, **kwargs))

    @functools.wraps(function)
    async def run_async(*args: Any, **kwargs: Any) -> Any:
        with recording.run():
            return recording.returned(await function(*args, **kwargs))

    return run_async if inspect.iscoroutinefunction(function) else run


def _count_steps(app: Onward, recording: Recording) -> None:
    """Let every step be an effect that has happened right before it is noted."""
    backend: Any = app.backend
    note = backend.note

    def noted(lease: Lease, name: str, value: bytes) -> Any:
        recording.stepped(name[1:])
        return note(lease, name, value)

    backend.note = noted


def _application(clock: FakeClock) -> Onward:
    """Make an application in memory, with the other settings of the environment and the configuration file."""
    return Onward("memory://", clock=clock, lease_for=_LEASE, dead_letter_queue=None, retention={"completed": None})


@contextmanager
def _quiet(job_id: str) -> Iterator[None]:
    """Keep lines of this job out of the log: its crash is intended."""

    def is_news(line: logging.LogRecord) -> bool:
        return getattr(line, "job_id", None) != job_id

    logger = logging.getLogger("onward.job")
    logger.addFilter(is_news)
    try:
        yield
    finally:
        logger.removeFilter(is_news)


@contextmanager
def _quiet_threads() -> Iterator[None]:
    """Keep quiet about threads of the handler that end by the simulated crash."""
    told_before = threading.excepthook

    def tell(args: threading.ExceptHookArgs) -> None:
        if not issubclass(args.exc_type, Crash):
            told_before(args)

    threading.excepthook = tell
    try:
        yield
    finally:
        threading.excepthook = told_before


def _lose_the_lease(app: Onward, clock: FakeClock) -> None:
    """Let the session expire and reap it.  Once more, if its helper thread renewed it in between."""
    for _ in range(3):
        clock.advance(_LEASE + timedelta(seconds=1))
        if app.reap():
            return


def _options(definition: JobDefinition) -> JobOptions:
    """Return the definition in the words of `@jobs.job`, without an instant at which it expires: the clock here differs."""
    options: JobOptions = {
        "name": definition.name,
        "queue": definition.queue,
        "priority": definition.priority,
        "retry": definition.retry,
        "timeout": definition.timeout,
        "single_instance": definition.single_instance,
        "expires": definition.expires_in,
        "meta": definition.meta,
        "aliases": definition.aliases,
        "retry_on": definition.retry_on,
        "discard_on": definition.discard_on,
    }
    if definition.max_retries is not None:
        options["max_retries"] = definition.max_retries
    if definition.max_crashes is not None:
        options["max_crashes"] = definition.max_crashes
    return options


def _reason(record: JobRecord) -> str:
    if record.errors and record.errors[-1].kind != "Crash":
        return f"{record.errors[-1].kind}: {record.errors[-1].message}"
    return record.reason or "no reason was given"


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value
