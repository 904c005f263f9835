"""The reason of a cancellation is kept in the same words, whatever it holds and whichever store keeps it."""

import pytest

from onward import Discard, JobContext, NoDelay, OptionError, State
from onward.telemetry import JobCancelled
from tests.application.every_store import redis_server, store, url  # noqa: F401

HOSTILE = {
    "a NUL": ("a\x00b", "a\\x00b"),
    "half a character": ("a\ud800b", "a\\ud800b"),
    "an escape and a line": ("a\x1b[2J\nb", "a\x1b[2J\nb"),
    "a megabyte": ("x" * 1_000_000, "x" * 4_095 + "…"),
    "four bytes a letter": ("\U0001f600" * 5_000, "\U0001f600" * 4_095 + "…"),
    "nothing": ("", ""),
    "a password": ("see postgresql://ann:hunter2@db/shop", "see postgresql://ann:***@db/shop"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_it_is_kept_as_text_that_every_store_takes(jobs, listen, what):
    heard = listen(jobs)
    given, kept = HOSTILE[what]
    handle = jobs.enqueue("elsewhere")

    assert handle.cancel(given) is State.CANCELLED

    assert jobs.get(handle.id).reason == kept
    assert [event.reason for event in heard(JobCancelled)] == [kept]


def test_what_a_running_job_is_asked_to_stop_for_is_kept_so_too(jobs, claim_elsewhere):
    handle = jobs.enqueue("elsewhere")
    (lease,) = claim_elsewhere(jobs)
    assert handle.cancel("a\x00b\ud800" + "x" * 1_000_000) is State.EXECUTING

    jobs.backend.nack(lease, 0)

    assert jobs.get(handle.id).state is State.CANCELLED
    assert len(jobs.get(handle.id).reason) <= 4_096


def test_what_a_handler_says_is_kept_letter_for_letter(jobs):
    @jobs.job(max_retries=1, retry=NoDelay())
    def work(ctx: JobContext) -> None:
        if ctx.is_last_attempt:
            raise Discard("日本 \U0001f600")
        raise ValueError("日本 \U0001f600")

    handle = work.enqueue()
    jobs.drain()

    record = jobs.get(handle.id)
    assert [error.message for error in record.errors] == ["日本 \U0001f600"] * 2
    assert record.reason == "日本 \U0001f600"


def test_what_is_no_text_is_refused(jobs):
    handle = jobs.enqueue("elsewhere")

    with pytest.raises(OptionError, match="reason must be text, not ValueError"):
        handle.cancel(ValueError("why"))

    assert jobs.get(handle.id).state is State.AVAILABLE
