"""What explaining a job asks of the store: one look at its place and its audit trail, and few questions besides."""

import pytest

from onward import Onward, OptionError
from onward.backend import Claim, Session

ASKED = ("get", "get_many", "list", "look", "sessions", "notes", "flow", "counts", "queues")


@pytest.fixture
def jobs(tmp_path):
    with Onward(f"sqlite:///{tmp_path}/jobs.db") as app:
        yield app


@pytest.fixture
def questions(jobs, monkeypatch):
    """Every question that the store is asked, from now on."""
    asked = []

    def counting(name):
        act = getattr(jobs.backend, name)

        def ask(*arguments, **options):
            asked.append((name, arguments))
            return act(*arguments, **options)

        return ask

    for name in ASKED:
        monkeypatch.setattr(jobs.backend, name, counting(name))
    return asked


def a_job(jobs, state):
    @jobs.job(name="work", max_retries=0)
    def work(fails: bool = False) -> None:
        if fails:
            raise KeyError

    handle = work.using(delay=3600 if state == "scheduled" else 0).enqueue(fails=state == "discarded")
    if state in ("completed", "discarded"):
        jobs.drain()
    if state == "cancelled":
        jobs.cancel(handle.id, by="ada")
    if state == "executing":
        jobs.backend.open_session(Session(owner="w"))
        jobs.backend.claim(Claim(queues=("default",), owner="w"))
    if state == "paused":
        jobs.pause("default", by="ada")
    if state == "behind":
        handle = work.enqueue()
    return handle.id


# What a reason needs beyond its place is in another look: the pace of its queue, how long such a job runs, how many have
# died like it, who has paused the queue or purged the job.
@pytest.mark.parametrize(
    ("state", "further_looks"),
    [
        *(("scheduled", 0), ("available", 0), ("completed", 0), ("cancelled", 0)),
        *(("behind", 1), ("paused", 1), ("executing", 1), ("discarded", 1), ("gone", 1)),
    ],
)
def test_the_page_of_a_job_is_one_get_and_one_look_and_at_most_one_look_more(jobs, questions, state, further_looks):
    job_id = "0" * 32 if state == "gone" else a_job(jobs, state)
    questions.clear()

    jobs.get(job_id)
    jobs.why(job_id)

    names = [name for name, _ in questions]
    assert (names.count("get"), names.count("sessions")) == (1, 1)
    looks = [arguments[0] for name, arguments in questions if name == "look"]
    placed = [look for look in looks if look.place_of is not None]
    assert [(look.place_of, look.audit.job_id) for look in placed] == [(job_id, job_id)]
    assert len(looks) == 1 + further_looks
    assert len(questions) - len(looks) <= 4, questions  # the sessions, and of a job that others stand before: what runs


@pytest.mark.parametrize("named", [5, None, b"x", ["a"]])
def test_what_is_no_id_is_refused_with_the_fix(jobs, named):
    with pytest.raises(OptionError, match=r"a job is named by its id, as in jobs\.why\(handle\.id\), not by "):
        jobs.why(named)
