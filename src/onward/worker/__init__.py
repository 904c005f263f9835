"""The worker: the engine that runs jobs, inside a program."""

from onward.worker.interrupt import JobStopped, JobTimeout
from onward.worker.options import WorkerOptions, WorkerParts
from onward.worker.worker import Worker, stop_all

__all__ = ["JobStopped", "JobTimeout", "Worker", "WorkerOptions", "WorkerParts", "stop_all"]
