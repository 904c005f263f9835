"""How long to wait before a failed job runs again.

One policy, three views of the same number (``retry_no`` is 1 for the first retry):

    compute_delay(attempt)         attempt is the number of the run about to happen, from 1; the first has no delay
    delay_after(completed_runs)    runs completed so far; none, no delay
    delay_for(attempt0)            retries counted from zero

so ``compute_delay(n + 2) == delay_after(n + 1) == delay_for(n)``.  The built-in policies are plain data: they travel in
the envelope, and a job keeps the policy with which it was enqueued.

The defaults are said once, by the classes: `Exponential()` is the policy of jobs that have none, of the name "exponential"
and of a table that names no more than that; ``jitter=True`` is its jitter.  `Fixed` and `Linear` have no jitter and no cap
unless they are given one.
"""

from __future__ import annotations

import math
import random
import typing
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from onward.base import durations
from onward.base.failure import kind_of
from onward.base.lazy import hashlib
from onward.base.logs import get_logger
from onward.base.names import suggestion
from onward.errors import OptionError

__all__ = [
    "DEFAULT_POLICY",
    "STRATEGIES",
    "Additive",
    "Custom",
    "Equal",
    "Exponential",
    "Fixed",
    "Full",
    "Jitter",
    "Linear",
    "NoDelay",
    "PlusMinus",
    "PortablePolicy",
    "RetryPolicy",
    "built",
    "chosen",
    "planned",
    "travels",
]

logger = get_logger("onward")

LONGEST = 366 * 86_400.0  # a policy without a cap of its own stops growing after a year


_NUMBERS = frozenset({int, float})
_MEASURES = frozenset({"delay", "base", "multiplier"})


class _Random(Protocol):
    def random(self) -> float: ...


def _check(owner: msgspec.Struct, field: str, most: float) -> None:
    value = getattr(owner, field, 0)
    if type(value) not in _NUMBERS or not 0 <= value <= most:  # by type: True is no number of seconds
        raise OptionError(f"{type(owner).__name__}: {field} must be a number from 0 to {most:,.0f}, not {value!r:.60}")


# ── jitter ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Jitter(msgspec.Struct, frozen=True, tag_field="kind"):
    # Deterministic jitter depends on the job's id even where a generator is given: the same job and attempt always wait
    # equally long, and jobs that fail together still have different delays.
    deterministic: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check(self, "ratio", 1)

    def spread(self, delay: float, unit: float) -> float:
        raise NotImplementedError


class PlusMinus(_Jitter, frozen=True, tag="plus_minus"):
    """Up to ``ratio`` more or less."""

    ratio: float = 0.15

    def spread(self, delay: float, unit: float) -> float:
        return delay * (1 + self.ratio * (2 * unit - 1))


class Additive(_Jitter, frozen=True, tag="additive"):
    """Up to ``ratio`` more, the same for the same job and attempt."""

    deterministic: ClassVar[bool] = True
    ratio: float = 0.25

    def spread(self, delay: float, unit: float) -> float:
        return delay * (1 + self.ratio * unit)


class Full(_Jitter, frozen=True, tag="full"):
    """Anything between nothing and the delay."""

    def spread(self, delay: float, unit: float) -> float:
        return delay * unit


class Equal(_Jitter, frozen=True, tag="equal"):
    """Half the delay, and anything up to the other half."""

    def spread(self, delay: float, unit: float) -> float:
        return delay * (1 + unit) / 2


Jitter = PlusMinus | Additive | Full | Equal
_JITTERS = (*typing.get_args(Jitter), bool, type(None))


def chosen(jitter: Jitter | bool | None) -> Jitter | None:
    """Return the jitter that a switch stands for."""
    if jitter is True:
        return PlusMinus(0.15)
    return None if jitter is False else jitter


# ── policies ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Delay(NamedTuple):
    """A delay in seconds, and what was wrong with the policy that should have given it, if anything was."""

    seconds: float
    problem: str | None = None


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True, tag_field="strategy"):
    """The base of all policies: three views, jitter, the cap.  A policy says only how its raw delay grows.

    A class of your own overrides `compute_delay`.  Give it to the decorator or to the application: code does not travel.
    """

    max: float | None = None
    jitter: Jitter | bool | None = None
    cap: Literal["hard", "soft"] = "hard"

    def __post_init__(self) -> None:
        if type(self) is RetryPolicy:
            raise OptionError("RetryPolicy is the base class of policies: choose one, such as Exponential(base=5)")
        for field in self.__struct_fields__:
            if field in _MEASURES:
                _check(self, field, durations.LONGEST)
        if getattr(self, "multiplier", 1) == 0:
            raise OptionError(f"{type(self).__name__}: multiplier must be above 0, not 0; below 1 the delays shrink")
        if self.max is not None:
            _check(self, "max", durations.LONGEST)
        if not isinstance(self.jitter, _JITTERS):
            raise OptionError(f"jitter must be PlusMinus(), Additive(), Full() or Equal(), not {self.jitter!r:.60}")
        if self.cap not in {"hard", "soft"}:
            raise OptionError(f"cap must be 'hard' or 'soft', not {self.cap!r:.60}")

    def compute_delay(self, attempt: int, *, job_id: str | None = None, rng: _Random | None = None) -> float:
        """Return the seconds before run number ``attempt`` (from 1)."""
        return 0 if attempt <= 1 else self._logged(attempt - 1, job_id, rng)

    def delay_after(self, completed_runs: int, *, job_id: str | None = None, rng: _Random | None = None) -> float:
        """Return the seconds to wait once that many runs have been completed."""
        return 0 if completed_runs <= 0 else self._logged(completed_runs, job_id, rng)

    def delay_for(self, attempt: int, *, job_id: str | None = None, rng: _Random | None = None) -> float:
        """Return the seconds before retry number ``attempt``, counted from zero."""
        return self._logged(max(attempt, 0) + 1, job_id, rng)

    def plan(self, retry_no: int, *, job_id: str | None = None, rng: _Random | None = None) -> Delay:
        """Return the same delay without logging: with the problem, if the policy is broken."""
        if type(self).compute_delay is RetryPolicy.compute_delay:
            return self._planned(retry_no, job_id, rng)
        try:  # a policy class of the user's
            return Delay(_as_delay(self.compute_delay(retry_no + 1)))
        except BaseException as error:  # noqa: BLE001  whatever it raises, the job is retried
            return _instead(self, error, retry_no, job_id, rng)

    def _planned(self, retry_no: int, job_id: str | None, rng: _Random | None) -> Delay:
        try:
            return Delay(self._computed(retry_no, job_id, rng))
        except BaseException as error:  # noqa: BLE001  a function or a jitter of the user's may raise anything
            return _instead(self, error, retry_no, job_id, rng)

    def _computed(self, retry_no: int, job_id: str | None, rng: _Random | None) -> float:
        """Return the seconds before this retry: the raw delay, jitter and the cap.  Raises what a broken policy raises."""
        limit = LONGEST if self.max is None else self.max
        delay = min(_as_delay(self._growth(retry_no)), limit)
        jitter = chosen(self.jitter)
        if jitter is not None:
            delay = jitter.spread(delay, _unit(jitter, retry_no, job_id, rng))
            if self.cap == "hard":
                delay = min(delay, limit)
        return max(delay, 0)

    def _logged(self, retry_no: int, job_id: str | None, rng: _Random | None) -> float:
        delay = self._planned(retry_no, job_id, rng)
        if delay.problem is not None:
            logger.error("retry policy: %s", delay.problem)
        return delay.seconds

    def _growth(self, retry_no: int) -> float:
        raise NotImplementedError(f"{type(self).__name__} does not say how long to wait: override compute_delay")

    @classmethod
    def from_config(
        cls,
        *,
        strategy: str,
        base: float | UnsetType = UNSET,
        multiplier: float | UnsetType = UNSET,
        max: float | UnsetType | None = UNSET,
        jitter: Jitter | UnsetType | bool | None = UNSET,
        cap: Literal["hard", "soft"] | UnsetType = UNSET,
    ) -> PortablePolicy:
        """Return a policy by the name of its strategy, as a configuration file names it.  The class has the defaults.

        A part that the strategy does not use is checked, and has no effect.

        >>> RetryPolicy.from_config(strategy="exponential", base=5, max=300, jitter=False).compute_delay(4)
        20.0
        """
        given = {"base": base, "multiplier": multiplier, "max": max, "jitter": jitter, "cap": cap}
        return built(strategy, {part: value for part, value in given.items() if value is not UNSET})


class NoDelay(RetryPolicy, frozen=True, tag="none"):
    """Retry at once.  The only policy that may return 0."""

    def _growth(self, retry_no: int) -> float:
        return 0


class Fixed(RetryPolicy, frozen=True, tag="fixed"):
    """The same delay before every retry.

    >>> Fixed(30).delay_for(7)
    30
    """

    delay: float = 30

    def _growth(self, retry_no: int) -> float:
        return self.delay


class Linear(RetryPolicy, frozen=True, tag="linear"):
    """One more ``delay`` before every further retry.

    >>> [Linear(60).delay_for(a) for a in range(3)]
    [60, 120, 180]
    """

    delay: float = 60

    def _growth(self, retry_no: int) -> float:
        return self.delay * retry_no


class Exponential(RetryPolicy, frozen=True, kw_only=True, tag="exponential"):
    """Multiply the delay after every failure, up to ``max``; with jitter, so that jobs which fail together retry apart.

    The policy of jobs that name none.

    >>> Exponential(base=5, max=300, jitter=None).compute_delay(4)
    20.0
    """

    base: float = 15
    multiplier: float = 2.0
    max: float | None = 3600
    jitter: Jitter | bool | None = PlusMinus(0.15)

    def _growth(self, retry_no: int) -> float:
        try:
            # As a float: Python would compute a whole number to the power of a million to the last digit.
            grown = self.base * float(self.multiplier) ** (retry_no - 1)
        except OverflowError:  # any job may be retried for years; the cap decides then
            grown = durations.LONGEST if self.base else 0
        return min(grown, durations.LONGEST)


PortablePolicy = NoDelay | Fixed | Linear | Exponential

DEFAULT_POLICY = Exponential()


class Custom(RetryPolicy, frozen=True, tag="custom"):
    """Your own function of the zero-based attempt and the base delay, in seconds.

    Give it to the decorator: functions do not travel with a job.  For a function that raises, or that returns something
    other than a delay, the default policy decides about that retry: a broken policy loses no job.

    >>> Custom(lambda attempt, base: [60, 120, 180][min(attempt, 2)]).delay_for(9)
    180
    """

    function: Callable[[int, float], float]
    base: float = 15

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.function):
            raise OptionError(f"Custom takes a function of the attempt and the base delay, not {self.function!r:.60}")

    def _growth(self, retry_no: int) -> float:
        return self.function(retry_no - 1, self.base)


def planned(policy: RetryPolicy, retry_no: int, *, job_id: str | None = None, rng: _Random | None = None) -> Delay:
    """Return the delay that a policy plans.  Never raises, even if the user's class overrides `plan`."""
    try:
        delay = policy.plan(retry_no, job_id=job_id, rng=rng)
        seconds = _as_delay(delay.seconds)
        if delay.problem is None and seconds is delay.seconds and type(delay) is Delay:  # nearly always
            return delay
        return Delay(seconds, None if delay.problem is None else str(delay.problem))
    except BaseException as error:  # noqa: BLE001  whatever it raises, the job is not lost to it
        return _instead(policy, error, retry_no, job_id, rng)


def _as_delay(value: Any) -> float:
    """Return the seconds that a policy of the user's returned, at most a year; raise if they are no delay."""
    if type(value) in _NUMBERS and 0 <= value <= LONGEST:  # nearly always
        return value  # type: ignore[no-any-return]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise _NoDelayAtAll(f"answered {value!r:.100}")
    delay = min(value, LONGEST)
    return delay if type(delay) in _NUMBERS else float(delay)


class _NoDelayAtAll(Exception):
    """A policy returned something other than a delay."""


def _instead(
    policy: RetryPolicy, error: BaseException, retry_no: int, job_id: str | None, rng: _Random | None
) -> Delay:
    """Return the default policy's delay, within the cap of the broken policy."""
    problem = str(error) if type(error) is _NoDelayAtAll else f"raised {kind_of(error)}"
    seconds = DEFAULT_POLICY._computed(retry_no, job_id, rng)  # noqa: SLF001  ours
    with suppress(BaseException):  # its cap may be broken, too
        if policy.max is not None:
            seconds = min(seconds, _as_delay(policy.max))
    return Delay(seconds, f"{kind_of(policy).rpartition('.')[2]} {problem}; the default policy decides instead")


def _unit(jitter: Jitter, retry_no: int, job_id: str | None, rng: _Random | None) -> float:
    """Return a number in [0, 1): from the job's id where the jitter is deterministic or no generator was given."""
    if job_id is not None and (jitter.deterministic or rng is None):
        digest = hashlib.blake2b(f"{job_id}:{retry_no}".encode(), digest_size=7).digest()
        return int.from_bytes(digest, "big") / (1 << 56)
    return (rng or random).random()


# ── by the name of the strategy ─────────────────────────────────────────────────────────────────────────────────────────


STRATEGIES: dict[str, type[PortablePolicy]] = {
    "none": NoDelay,
    "fixed": Fixed,
    "constant": Fixed,
    "linear": Linear,
    "exponential": Exponential,
}


def travels(policy: RetryPolicy | None) -> typing.TypeGuard[PortablePolicy]:
    """Return whether a policy is plain data.  A class of the user's is code, even if it is derived from a built-in one."""
    return type(policy) in STRATEGIES.values()


def built(strategy: Any, parts: dict[str, Any]) -> PortablePolicy:
    """Build a policy of this strategy; parts that are not given are the class's defaults."""
    kind = STRATEGIES.get(strategy) if isinstance(strategy, str) else None
    if kind is None:
        raise OptionError(f"there is no retry strategy {strategy!r:.60}{suggestion(str(strategy), STRATEGIES)}")
    parts = {part: chosen(value) if part == "jitter" else value for part, value in parts.items()}
    exponential = Exponential(**parts)  # which checks every part, also one that this strategy does not use
    if kind is Exponential:
        return exponential
    if kind is NoDelay:
        return NoDelay()
    parts.pop("multiplier", None)
    base = {"delay": parts.pop("base")} if "base" in parts else {}
    return kind(**base, **parts)
