"""The contract suite: what a store must do to be an Onward backend, as tests that any backend's author can run.

The whole of a backend's test file:

    from onward.testing.contract import BackendContract

    class TestMyStore(BackendContract):
        @pytest.fixture
        def backend(self, clock, tmp_path):
            with closing(MyBackend(tmp_path, clock=clock)) as backend:
                yield backend

        @pytest.fixture
        def open_client(self, backend, clock, tmp_path):
            return lambda: MyBackend(tmp_path, clock=clock)   # another client on the same store

A backend that cannot do everything says so in its `capabilities`; the tests that need more are skipped and name what is
missing.  The suite marks its tests with ``promise``: register that marker if you run pytest with strict markers.

Each topic is a module; read `suite` (the class with all of them), `stage` and `builders` (helpers of the tests).
"""

from __future__ import annotations

import pytest

TOPICS = (
    "adoption",
    "arrows",
    "audit",
    "batches",
    "booking",
    "cancelling",
    "claiming",
    "clocks",
    "deaths",
    "durability",
    "enqueueing",
    "evidence",
    "fencing",
    "flow_changes",
    "flow_ends",
    "flow_growing",
    "flow_rules",
    "flow_transactions",
    "flows",
    "forgetting",
    "holds",
    "inspection",
    "lanes",
    "limits",
    "notes",
    "origins",
    "overview",
    "pausing",
    "places",
    "rates",
    "reaping",
    "reasons",
    "records",
    "removing",
    "replaying",
    "samples",
    "schedules",
    "sessions",
    "settling",
    "signals",
    "snapshots",
    "suspects",
    "taking",
    "transacting",
    "transfer",
    "uniqueness",
    "waiters",
    "waiting",
    "working",
)

# Before the topics are imported: their bare asserts then say what they compared.
pytest.register_assert_rewrite(*(f"{__name__}.{topic}" for topic in ("builders", "flow_stage", "stage", *TOPICS)))

from onward.testing.contract.suite import BackendContract  # noqa: E402

__all__ = ["BackendContract"]
