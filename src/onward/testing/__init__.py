"""What a program's own tests need, and, in `onward.testing.contract`, what a backend's tests need."""

from onward.testing.assertions import assert_enqueued, assert_not_enqueued
from onward.testing.clock import FakeClock
from onward.testing.effects import Crash, Effect, Effects
from onward.testing.emptying import empty_store
from onward.testing.simulation import Scenario, Simulation, simulate

__all__ = [
    "Crash",
    "Effect",
    "Effects",
    "FakeClock",
    "Scenario",
    "Simulation",
    "assert_enqueued",
    "assert_not_enqueued",
    "empty_store",
    "simulate",
]
