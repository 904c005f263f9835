"""A backend that can do nothing but what every backend must.  Run by test_suite.py, not collected by itself."""

import pytest

from onward.backend import Backend, Capabilities
from onward.backends.memory import MemoryBackend
from onward.errors import Unsupported
from onward.testing.contract import BackendContract


class BareBackend(Backend):
    """The required verbs and nothing else, over the memory backend; refuses whatever it does not declare."""

    capabilities = Capabilities(**dict.fromkeys(Capabilities.__struct_fields__, False))

    def __init__(self, clock):
        self._memory = MemoryBackend(clock=clock)

    def enqueue(self, envelopes, *, retried=False):
        for envelope in envelopes:
            if envelope.delay or envelope.not_before or envelope.priority:
                raise Unsupported("no delays, no priorities")
            if envelope.unique_key or envelope.idempotency_key or envelope.single_instance:
                raise Unsupported("no keys")
        return self._memory.enqueue(envelopes, retried=retried)

    def open_session(self, session, *, adopts=None):
        return self._memory.open_session(session, adopts=adopts)

    def turn(self, turn):
        return self._memory.turn(turn)

    def extend(self, owner):
        return self._memory.extend(owner)

    def reap(self, *, owner=None, started=None, cause=None):
        return self._memory.reap(owner=owner, started=started, cause=cause)

    def wait(self, queues, timeout):
        self._memory.wait(queues, min(timeout, 0.01))

    def close(self):
        self._memory.close()


class TestABareBackend(BackendContract):
    """A test that uses what it does not say it needs fails here."""

    @pytest.fixture
    def backend(self, clock):
        return BareBackend(clock)

    @pytest.fixture
    def open_client(self, backend):
        return lambda: backend
