"""Help for tests: for those of a program here, for those of a store in `contract` and `machine`.

Imported by tests and by the pytest plugin, by no other room.

Read `assertions` with `calls` (which jobs were enqueued), `clock` (time that tests move), `simulation` with `effects` (crash
a handler after each of its effects), `emptying`.
"""

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
