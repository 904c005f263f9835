"""The memory backend does what the model does."""

import pytest

from onward.backends.memory import MemoryBackend
from tests.model.machines import compare_with_model


@pytest.mark.timeout(3_600)
@pytest.mark.promise("S128")
def test_the_memory_backend_does_what_the_model_does(report):
    def new_store(clock):
        backend = MemoryBackend(clock=clock)
        return lambda: backend

    compare_with_model("memory", new_store, report)
