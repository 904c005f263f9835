"""The worker: the engine that runs jobs."""

from onward.worker.options import WorkerOptions, WorkerParts
from onward.worker.pump import Bequest
from onward.worker.quota import Quota
from onward.worker.worker import Worker, stop_all

__all__ = ["Bequest", "Quota", "Worker", "WorkerOptions", "WorkerParts", "stop_all"]
