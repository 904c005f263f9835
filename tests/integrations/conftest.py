"""An application in this process that runs its jobs when it is asked to."""

from tests.applications import clock, folder, jobs, open_app, own_settings, store, url

__all__ = ["clock", "folder", "jobs", "open_app", "own_settings", "store", "url"]
