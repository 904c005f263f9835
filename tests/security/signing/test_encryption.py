"""Every store keeps ciphertext as it was given, and hands it back to those who can read it."""

import pytest

from onward import Discard, Onward
from onward.backend import Inspection
from onward.security.key_ring import KeyRing

RING = KeyRing.parse(f"k2:{'new-' * 10},k1:{'old-' * 10}")
CANARY = "canary-4242-4242 \U0001f424"
MARKER = "<encrypted with key k2>"

pytestmark = pytest.mark.usefixtures("quiet")


def with_jobs(jobs, ran, letters):
    @jobs.job
    def succeed(text: str) -> list[str]:
        ran.append(text)
        return [text] * 100

    @jobs.job(max_retries=0)
    def fail(text: str) -> None:
        ran.append(text)
        raise ValueError(text * 1000)  # as much as is kept of an error

    @jobs.job
    def give_up(text: str) -> None:
        ran.append(text)
        raise Discard(text)

    @jobs.job
    def dead_letter(id, job, name, queue, payload, meta, reason, attempts, errors):  # noqa: A002
        letters[job] = (payload, reason, errors[0]["message"])

    return succeed, fail, give_up


@pytest.mark.promise("S47")
def test_it_comes_back_from_every_store_and_nothing_lies_there_in_the_clear(url):
    ran, letters = [], {}
    with Onward(url, signing_keys=RING, signing="require", encryption=True, dead_letter_queue="dead") as jobs:
        succeed, fail, give_up = with_jobs(jobs, ran, letters)
        keys = {"unique_key": CANARY, "idempotency_key": CANARY} if jobs.backend.capabilities.deduplicates else {}
        handles = [succeed.using(**keys).enqueue(CANARY), fail.enqueue(CANARY), give_up.enqueue(CANARY)]
        jobs.drain("default")
        jobs.drain("dead")

        message = (CANARY * 1000)[:4095] + "…"
        assert ran == [CANARY] * 3
        assert letters == {
            "fail": ({"text": CANARY}, "gave up after 1 attempt: max_retries is 0", message),
            "give_up": ({"text": CANARY}, CANARY, CANARY),
        }
        if not isinstance(jobs.backend, Inspection):
            return
        succeeded, failed, given_up = [handle.record() for handle in handles]
        assert succeeded.result == [CANARY] * 100
        assert (failed.errors[0].message, given_up.reason, given_up.errors[0].message) == (message, CANARY, CANARY)
        stored = [jobs.backend.get(record.id) for record in jobs.list()]
        assert len(stored) == 5
        assert "canary" not in repr(stored)
        if not jobs.backend.capabilities.shared:
            return
    with Onward(url) as stranger:
        assert [record.payload for record in stranger.list()] == [MARKER] * 5
        assert stranger.get(given_up.id).reason == stranger.get(succeeded.id).result == MARKER
