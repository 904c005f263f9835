"""The properties of a queue, as far as the stand-in obeys them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

__all__ = ["QueueOptions", "micros"]

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, kw_only=True)
class QueueOptions:
    """How a queue treats its messages.  The defaults are Azure's.  Times are seconds or timedeltas.

    Azure allows locks of 5 seconds to 5 minutes; the stand-in takes any, so that a test may let one expire soon.

    >>> QueueOptions(lock_duration=30, max_delivery_count=2000).max_delivery_count
    2000
    """

    lock_duration: float | timedelta = 60
    max_delivery_count: int = 10
    duplicate_detection_window: float | timedelta | None = None
    """How long a message id is remembered.  A message that repeats one is accepted, and dropped."""
    default_time_to_live: float | timedelta | None = None
    dead_letter_on_expiration: bool = False
    """Whether a message that outlives its time to live becomes a dead letter.  Otherwise it is dropped."""

    def __post_init__(self) -> None:
        for name in ("lock_duration", "duplicate_detection_window", "default_time_to_live"):
            if (value := getattr(self, name)) is not None and micros(value) <= 0:
                raise ValueError(f"{name} must be longer than nothing, not {value!r}")
        if self.max_delivery_count < 1:
            raise ValueError(f"max_delivery_count must be at least 1, not {self.max_delivery_count}")


def micros(duration: float | timedelta) -> int:
    """
    >>> micros(1.5), micros(timedelta(milliseconds=2))
    (1500000, 2000)
    """
    return duration // _MICROSECOND if isinstance(duration, timedelta) else round(duration * 1_000_000)
