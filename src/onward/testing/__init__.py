"""What a program's own tests need, and, in `onward.testing.contract`, what a backend's tests need."""

from onward.testing.clock import FakeClock

__all__ = ["FakeClock"]
