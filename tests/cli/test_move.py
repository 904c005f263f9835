"""`onward move`: what it prints, what it refuses, and how it ends."""

import pytest

from onward import Onward
from onward.cli.exits import Exit


@pytest.fixture
def stores(tmp_path):
    return tuple(f"sqlite:///{tmp_path}/{name}.db" for name in ("old", "new"))


@pytest.fixture
def ends(stores):
    """The options that name them."""
    return ("--from", stores[0], "--to", stores[1])


@pytest.fixture
def old(stores):
    with Onward(stores[0]).connect() as app:
        yield app


@pytest.fixture
def new(stores):
    with Onward(stores[1]).connect() as app:
        yield app


def fill(app, number, **options):
    return [app.enqueue("greet", {"number": each}, **options).id for each in range(number)]


def test_jobs_move_and_both_queues_stay_paused(onward, ends, old, new):
    ids = fill(old, 3)

    ran = onward("move", *ends)

    assert ran.code == Exit.OK
    assert ran.out == "default: 3 jobs moved\n"
    assert "default is paused at both ends" in ran.err
    assert "onward queue resume default --url" in ran.err
    assert sorted(record.id for record in new.list()) == sorted(ids)
    assert old.list() == []
    assert [queue.paused for app in (old, new) for queue in app.queues()] == [True, True]


def test_a_dry_run_changes_nothing(onward, ends, old, tmp_path):
    fill(old, 2)
    fill(old, 1, queue="mail")

    ran = onward("move", *ends, "--dry-run")

    assert (ran.code, ran.out) == (Exit.OK, "default: 2 jobs would move\nmail: 1 job would move\n")
    assert not (tmp_path / "new.db").exists()
    assert not any(queue.paused for queue in old.queues())


def test_only_the_queues_that_are_named_move(onward, ends, old, new):
    fill(old, 2)
    fill(old, 1, queue="mail")

    ran = onward("move", *ends, "--queue", "mail")

    assert (ran.code, ran.out) == (Exit.OK, "mail: 1 job moved\n")
    assert len(old.list()) == 2


def test_machines_are_told_in_json(onward, ends, old, new):
    fill(old, 2)

    foretold = onward("move", *ends, "--json", "--dry-run")
    ran = onward("move", *ends, "--json")

    assert foretold.json == [{"queue": "default", "jobs": 2, "running": 0}]
    assert ran.json == [
        {
            "queue": "default",
            "moved": 2,
            "there": 0,
            "running": 0,
            "stayed": [],
            "before": 2,
            "after": 2,
            "complete": True,
        }
    ]


def test_nothing_to_move(onward, ends, old):
    assert onward("move", *ends).code == Exit.NOTHING
    assert onward("move", *ends, "--dry-run").code == Exit.NOTHING


def test_jobs_that_stay_are_named(onward, ends, old, new):
    (mine,) = fill(old, 1, unique_key="k")
    (holder,) = fill(new, 1, unique_key="k")

    ran = onward("move", *ends)

    assert ran.code == Exit.FAILURE
    assert f"{mine} stayed: its unique key is held there by {holder}" in ran.out
    assert "run the same command again" in ran.err


def test_jobs_that_run_are_named(onward, ends, old):
    from onward.testing.contract.builders import a_claim

    fill(old, 2)
    old.backend.claim(a_claim())

    ran = onward("move", *ends)

    assert ran.code == Exit.FAILURE
    assert ran.out == "default: 1 job moved\n"
    assert "1 job still running at the source: stop the workers there" in ran.err
    assert "1 job running there: stop the workers first" in onward("move", *ends, "--dry-run").out


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        ([], Exit.USAGE, "--from"),
        (["--from", "sqlite:///old.db"], Exit.USAGE, "--to"),
        (["--from", "sqlite:///old.db", "--to", "sqlite:///old.db"], Exit.USAGE, "the same store"),
        (["--from", "sqlite:///none.db", "--to", "sqlite:///new.db"], Exit.UNREACHABLE, "there is no store at"),
        (["--from", "sqlite:///old.db", "--to", "memory://"], Exit.CONFIG, "seen by one process only"),
        (["--from", "sqlite:///old.db", "--to", "carrier://pigeon"], Exit.CONFIG, "no backend for 'carrier'"),
        (["--from", "sqlite:///old.db", "--to", "x://", "--url", "sqlite:///y.db"], Exit.USAGE, "--from and --to"),
    ],
)
def test_what_makes_no_sense_is_refused(onward, old, words, code, complaint):
    fill(old, 1)

    ran = onward("move", *words)

    assert (ran.code, complaint in ran.err) == (code, True), ran.err
    assert len(old.list()) == 1


def test_one_file_by_two_names_is_one_store(onward, stores, old):
    fill(old, 1)

    ran = onward("move", "--from", stores[0], "--to", f"{stores[0]}?busy_timeout=5")

    assert ran.code == Exit.CONFIG
    assert "both URLs lead to the same store" in ran.err
    assert len(old.list()) == 1


def test_a_password_is_not_shown():
    from onward.base.credentials import without_credentials

    assert without_credentials("postgresql://ann:secret@host/jobs") == "postgresql://ann:***@host/jobs"
    assert without_credentials("sqlite:///jobs.db") == "sqlite:///jobs.db"


def test_the_queue_is_resumed_at_the_target_when_that_is_asked_for(onward, ends, old, new):
    fill(old, 2)

    ran = onward("move", *ends, "--resume")

    assert ran.code == Exit.OK
    assert "Resumed there: default" in ran.err
    assert [queue.paused for app in (old, new) for queue in app.queues()] == [True, False]


def test_a_queue_of_which_jobs_stayed_is_not_resumed(onward, ends, old, new):
    fill(old, 1, unique_key="k")
    fill(new, 1, unique_key="k")

    assert onward("move", *ends, "--resume").code == Exit.FAILURE
    assert [queue.paused for queue in new.queues()] == [True]


def test_a_queue_of_an_unfinished_move_is_named_and_cannot_be_resumed_but_by_force(onward, stores, ends, old):
    fill(old, 1)
    old.backend.reserve("default", "sends 3f9a1c.1 from here to there")

    listed = onward("queue", "list", "--url", stores[0])
    refused = onward("queue", "resume", "default", "--url", stores[0])
    elsewhere = onward("move", *ends)

    assert "reserved" in listed.out
    assert (refused.code, "from here to there): run the same `onward move` again" in refused.err) == (
        Exit.FAILURE,
        True,
    )
    assert (elsewhere.code, "it went to another store" in elsewhere.err) == (Exit.FAILURE, True)
    assert onward("queue", "resume", "default", "--url", stores[0], "--force").out == "default is open\n"
    assert [(queue.paused, queue.reserved_for) for queue in old.queues()] == [(False, None)]
