"""The worker: the engine that runs jobs."""
