"""What a worker says of itself when it opens its session."""

from __future__ import annotations

import os

from onward.backend import Inspection
from onward.contract.description import WorkerDescription
from onward.version import build
from onward.worker.options import WorkerOptions, WorkerParts

__all__ = ["described"]


def described(parts: WorkerParts, options: WorkerOptions, has_supervisor: bool = False) -> bytes:
    """Return the description of a worker, as it is stored."""
    registry = parts.runtime.registry
    return WorkerDescription(
        queues=tuple(options.queues),
        weights=dict(options.weights),
        per_process=dict(options.per_process),
        allowed=registry.allowed,
        denied=registry.denied,
        concurrency=options.concurrency,
        jobs=tuple(registry.known),
        build=build(),
        keys=tuple(parts.key_ids()),
        key_file=parts.key_file,
        supervisor=os.getppid() if has_supervisor else 0,
        samples=parts.reporter.is_counting and isinstance(parts.backend, Inspection),
        started=parts.runtime.clock.micros(),
    ).encoded()
