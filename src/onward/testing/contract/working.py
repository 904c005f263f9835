"""Which queues have work: named page by page, for workers that serve queues by pattern."""

from __future__ import annotations

import pytest

from onward.testing.contract.builders import a_claim, an_envelope, some_envelopes
from onward.testing.contract.capabilities import needs

__all__ = ["QueuesWithWorkContract"]


def _walk(backend, prefix: str = "", limit: int = 500) -> list[str]:
    """Return the queues of all pages."""
    names: list[str] = []
    after = ""
    for _ in range(100):
        page = backend.queues_with_work(prefix, after=after, limit=limit)
        names += page.names
        if page.next is None:
            return names
        assert page.next > after, "a walk goes forward"
        after = page.next
    raise AssertionError("the walk does not end")


@needs("inspection", "lists_queues")
class QueuesWithWorkContract:
    def test_an_empty_store_has_none(self, backend):
        assert _walk(backend) == []

    def test_queues_with_something_available_are_named_in_order(self, backend):
        backend.enqueue([*some_envelopes(3, queue="b"), an_envelope(queue="a"), an_envelope(queue="c")])

        assert _walk(backend) == ["a", "b", "c"]

    def test_a_queue_in_which_nothing_is_due_is_not_named(self, backend, clock):
        backend.enqueue([an_envelope(queue="later", delay=60), an_envelope(queue="now")])

        assert _walk(backend) == ["now"]

        clock.advance(60)
        assert _walk(backend) == ["later", "now"]

    def test_a_retry_is_named_when_it_is_due(self, backend, clock):
        backend.enqueue([an_envelope(queue="mail")])
        (lease,) = backend.claim(a_claim(queues=("mail",)))
        assert _walk(backend) == []

        backend.nack(lease, 30)
        assert _walk(backend) == []

        clock.advance(30)
        assert _walk(backend) == ["mail"]

    def test_a_paused_queue_is_not_named(self, backend):
        backend.enqueue([an_envelope(queue="a"), an_envelope(queue="b")])
        backend.pause("a")

        assert _walk(backend) == ["b"]

        backend.pause("a", paused=False)
        assert _walk(backend) == ["a", "b"]

    def test_only_names_that_begin_so(self, backend):
        names = ["tenant", "tenant-1", "tenant.", "tenant.a", "tenant.z.mail", "tenant_", "tenants", "Tenant.a", "u"]
        backend.enqueue([an_envelope(queue=name) for name in names])

        assert _walk(backend, "tenant.") == ["tenant.", "tenant.a", "tenant.z.mail"]
        assert _walk(backend, "tenant") == sorted(name for name in names if name.startswith("tenant"))

    @pytest.mark.parametrize("limit", [1, 2, 3, 100])
    def test_pages_name_every_queue_once(self, backend, limit):
        ready = [f"ready.{number:02}" for number in range(7)]
        later = [f"later.{number:02}" for number in range(5)]
        both = [f"both.{number:02}" for number in range(3)]
        backend.enqueue([an_envelope(queue=name) for name in (*ready, *both)])
        backend.enqueue([an_envelope(queue=name, delay=3600) for name in (*later, *both)])

        assert _walk(backend, limit=limit) == sorted([*ready, *both])

    def test_a_page_goes_on_where_the_last_one_ended(self, backend):
        backend.enqueue([an_envelope(queue=name) for name in "abcd"])

        page = backend.queues_with_work(limit=2)

        assert (page.names, page.next) == (["a", "b"], "b")
        assert backend.queues_with_work(after="b").names == ["c", "d"]
