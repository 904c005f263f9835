"""Jobs in this process's memory: the reference backend, the contract in its plainest form."""

from onward.backends.memory.backend import MemoryBackend

__all__ = ["MemoryBackend"]
