"""What goes wrong between us and the server, and on it."""

import threading

import pytest
import redis as driver

from onward.backend import Settlement
from onward.backends.redis import errors
from onward.errors import (
    BackendError,
    BackendMisconfigured,
    BackendRefused,
    BackendUnavailable,
    StoreFull,
)
from onward.job.states import State
from onward.testing.contract.builders import (
    a_claim,
    a_failure,
    a_lease,
    a_session,
    a_turn,
    an_envelope,
    ids,
    some_envelopes,
)
from tests.waiting import eventually

TRANSLATIONS = {
    "OOM command not allowed when used memory > 'maxmemory'.": StoreFull,
    "Error running script (call to f_1): @user_script:9: -OOM command not allowed when used memory": StoreFull,
    "LOADING Redis is loading the dataset in memory": BackendUnavailable,
    "BUSY Redis is busy running a script.": BackendUnavailable,
    "CLUSTERDOWN Hash slot not served": BackendUnavailable,
    "TRYAGAIN Multiple keys request during rehashing of slot": BackendUnavailable,
    "MISCONF Errors writing to the AOF file: No space left on device": BackendUnavailable,
    "NOREPLICAS Not enough good replicas to write.": BackendUnavailable,
    "CROSSSLOT Keys in request don't hash to the same slot": BackendMisconfigured,
    "NOPERM this user has no permissions to run the 'evalsha' command": BackendMisconfigured,
    "unknown command 'EVALSHA'": BackendMisconfigured,
    "something else": BackendError,
}


@pytest.mark.parametrize(("said", "error"), TRANSLATIONS.items())
def test_an_error_of_the_server_is_told_in_our_words(said, error):
    assert type(errors.translation(driver.ResponseError(said), "redis://here")) is error


def test_errors_that_the_driver_has_names_for_are_told_in_our_words():
    for error, ours in {
        driver.exceptions.ReadOnlyError("You can't write against a read only replica."): BackendUnavailable,
        driver.exceptions.BusyLoadingError("Redis is loading"): BackendUnavailable,
        driver.exceptions.AuthenticationError("WRONGPASS"): BackendMisconfigured,
        driver.exceptions.ConnectionError("Connection refused"): BackendUnavailable,
        driver.exceptions.TimeoutError("Timeout reading from socket"): BackendUnavailable,
        driver.exceptions.MovedError("3999 127.0.0.1:6381"): BackendMisconfigured,
        OverflowError("too large"): BackendRefused,
    }.items():
        assert type(errors.translation(error, "redis://here")) is ours


# Lost answers


@pytest.fixture
def through_proxy(proxy, open_backend):
    backend = open_backend(proxy.url)
    backend.settle([Settlement.release(a_lease(backend))])
    (lease,) = backend.claim(a_claim())
    backend.settle([Settlement.ack(lease, keep=False)])  # from now on the server knows the scripts of turns
    return backend


@pytest.mark.promise("F28")
def test_an_enqueue_whose_answer_was_lost_is_found_when_it_is_repeated(proxy, through_proxy, backend):
    envelope = an_envelope()
    proxy.lose_the_next_answer()

    with pytest.raises(BackendUnavailable, match="unknown"):
        through_proxy.enqueue([envelope])

    (again,) = through_proxy.enqueue([envelope], retried=True)
    assert (again.created, again.existing_id) == (False, envelope.id)
    assert backend.counts()[State.AVAILABLE] == 1


@pytest.mark.promise("F27")
def test_a_settlement_whose_answer_was_lost_is_recognised(proxy, through_proxy):
    lease = a_lease(through_proxy)
    proxy.lose_the_next_answer()

    with pytest.raises(BackendUnavailable):
        through_proxy.ack(lease, b"1")

    assert through_proxy.ack(lease, b"1").already_applied


@pytest.mark.promise("F26")
def test_a_claim_whose_answer_was_lost_comes_to_light_by_adoption(proxy, through_proxy):
    through_proxy.enqueue([envelope := an_envelope()])
    through_proxy.open_session(a_session("old"))
    proxy.lose_the_next_answer()
    with pytest.raises(BackendUnavailable):
        through_proxy.turn(a_turn(owner="old", claim=a_claim(owner="old")))

    held = through_proxy.open_session(a_session("new"), adopts="old")

    assert ids(held) == [envelope.id]


@pytest.mark.promise("F65", "F66")
@pytest.mark.parametrize(
    ("settle", "state"),
    [
        (lambda lease, letter: Settlement.nack(lease, 60, failure=a_failure()), State.RETRYABLE),
        (lambda lease, letter: Settlement.abandon(lease, "gave up", dead_letter=letter), State.DISCARDED),
    ],
    ids=["retry", "dead letter"],
)
@pytest.mark.parametrize("arrives", [False, True])
def test_a_worker_that_is_cut_off_in_a_settlement_has_done_all_of_it_or_nothing(
    proxy, through_proxy, backend, settle, state, arrives
):
    """A verb is one command: there is no moment between two of them to be cut off in."""
    lease, letter = a_lease(through_proxy), an_envelope(queue="failed")
    settlement = settle(lease, letter)
    if arrives:
        proxy.lose_the_next_answer()
    else:
        proxy.close()

    with pytest.raises(BackendUnavailable):
        through_proxy.settle([settlement])

    assert backend.get(lease.envelope.id).state is (state if arrives else State.EXECUTING)
    assert backend.counts("failed")[State.AVAILABLE] == (arrives and settlement.dead_letter is not None)
    (again,) = backend.settle([settlement])
    assert (again.already_applied if arrives else again.applied, again.state) == (True, state)
    assert backend.counts("failed")[State.AVAILABLE] == (settlement.dead_letter is not None)


@pytest.mark.promise("F65", "F66")
def test_every_verb_is_one_command(backend, raw):
    """So there are no two commands that a worker could be killed between."""
    lease = a_lease(backend)
    backend.enqueue(some_envelopes(3))
    letter = an_envelope(queue="failed")
    verbs = {
        "enqueue": lambda: backend.enqueue([an_envelope(unique_key="k"), an_envelope(delay=1)]),
        "open_session": lambda: backend.open_session(a_session()),
        "turn": lambda: backend.turn(
            a_turn(Settlement.abandon(lease, "no", failure=a_failure(), dead_letter=letter), claim=a_claim(limit=2))
        ),
        "extend": lambda: backend.extend("worker"),
        "reap": lambda: backend.reap(owner="worker"),
    }
    for act in verbs.values():
        act()  # now the server knows the scripts

    for name, act in verbs.items():
        raw.config_resetstat()
        act()
        calls = {key: each["calls"] for key, each in raw.info("commandstats").items() if "eval" in key}
        assert calls == {"cmdstat_evalsha": 1}, name


# The server


def test_connections_that_were_killed_are_replaced(backend, raw):
    lease = a_lease(backend)

    for _ in range(20):
        raw.client_kill_filter(_type="normal", skipme=True)
        assert backend.extend(lease.owner).alive

    assert backend.ack(lease).applied


def test_a_server_that_forgot_the_scripts_is_told_them_again(backend, raw):
    backend.enqueue([an_envelope()])

    raw.script_flush()

    assert backend.enqueue([an_envelope()])[0].created


def test_a_server_that_does_not_answer_is_given_up_after_the_timeout(own_server, open_backend):
    backend = open_backend(own_server.url(timeout=1))
    backend.enqueue([an_envelope()])
    own_server.pause()
    try:
        with pytest.raises(BackendUnavailable, match="unknown"):
            backend.enqueue([an_envelope()])
    finally:
        own_server.resume()

    assert backend.enqueue([an_envelope()])[0].created


@pytest.mark.promise("F36")
def test_a_full_server_refuses_jobs_and_still_lets_them_be_finished(own_server, open_backend):
    backend = open_backend(own_server.url())
    backend.enqueue(some_envelopes(20))
    (first, *others) = backend.claim(a_claim(limit=10))
    with own_server.client() as client:
        client.config_set("maxmemory", 1)

        with pytest.raises(StoreFull, match="nothing of this call was kept"):
            backend.enqueue([an_envelope()])
        assert backend.counts()[State.AVAILABLE] == 10

        assert backend.extend("worker").alive
        settled = backend.settle(
            [
                Settlement.abandon(first, "no", failure=a_failure(), dead_letter=an_envelope(queue="failed")),
                *map(Settlement.ack, others),
            ]
        )
        assert [answer.applied for answer in settled] == [True] * 10
        rest = backend.claim(a_claim(limit=20))
        assert [answer.applied for answer in backend.settle([Settlement.nack(lease, 0) for lease in rest])] == [
            True
        ] * 10
        backend.claim(a_claim(owner="dies", limit=3))
        assert len(backend.reap(owner="dies")) == 3
        client.config_set("maxmemory", 0)

    assert backend.enqueue([an_envelope()])[0].created


@pytest.mark.promise("F37")
def test_a_server_that_cannot_write_its_file_takes_no_jobs_and_says_so(own_server, open_backend):
    """It notices after it has answered, and keeps in its memory what it could not write."""
    own_server.restart(appendfsync="everysec")
    backend = open_backend(own_server.url())
    lease = a_lease(backend)
    own_server.limit_files(1)
    accepted = [an_envelope()]
    backend.enqueue(accepted)

    with pytest.raises(BackendUnavailable, match="MISCONF"):
        eventually(lambda: backend.enqueue(accepted[-1:]) and accepted.append(an_envelope()))
    with pytest.raises(BackendUnavailable, match="MISCONF"):
        backend.ack(lease)
    assert {check.name: check.status for check in backend.health()}["durability"] == "fail"

    own_server.limit_files("unlimited")
    eventually(lambda: {check.name: check.status for check in backend.health()}["durability"] != "fail")
    assert backend.ack(lease).applied
    own_server.restart()
    assert backend.get(lease.envelope.id).state is State.COMPLETED
    assert all(backend.get(envelope.id) for envelope in accepted[:-1])


@pytest.mark.promise("F37")
def test_a_server_that_flushes_everything_ends_when_it_cannot_write_and_has_lost_nothing(own_server, open_backend):
    backend = open_backend(own_server.url())
    accepted = some_envelopes(20)
    backend.enqueue(accepted)
    own_server.limit_files(1)

    with pytest.raises(BackendUnavailable):
        backend.enqueue([refused := an_envelope()])

    own_server.restart()
    assert all(backend.get(envelope.id) for envelope in accepted)
    assert backend.get(refused.id) is None


@pytest.mark.promise("F38")
def test_a_late_ack_is_refused_though_the_job_was_not_claimed_since(backend):
    lease = a_lease(backend)
    backend.reap(owner=lease.owner)

    assert backend.ack(lease).lease_lost


def test_threads_share_few_connections(open_backend, url, raw):
    backend = open_backend(f"{url}?pool_size=2")
    threads = [threading.Thread(target=lambda: backend.enqueue(some_envelopes(20))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert backend.counts()[State.AVAILABLE] == 160
    ours = [client for client in raw.client_list() if client["name"] == "onward"]
    assert len(ours) <= 2
