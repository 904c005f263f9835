"""Onward in the places of the two backends that Django's own tests are written for.  Imported by `djangos_own`, in a process
that has Django set up.
"""

from onward.integrations.django import OnwardBackend


class _On(OnwardBackend):
    url = ""

    def __init__(self, alias, params):
        given = {"url": self.url, **params.get("OPTIONS", {})}
        super().__init__(alias, {**params, "OPTIONS": given})

    @property
    def results(self):
        """What Django's `DummyBackend` keeps in a list."""
        return [self.get_result(record.id) for record in self.jobs.list(limit=1000)]

    def clear(self):
        self.application.close()


class DummyBackend(_On):
    """In place of Django's: nothing runs."""

    url = "memory://"


class ImmediateBackend(_On):
    """In place of Django's: tasks run inside `enqueue`."""

    url = "sync://"
