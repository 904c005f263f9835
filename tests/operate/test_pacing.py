"""How fast queues are."""

import msgspec

from onward.backend import Overview, QueueCounts
from onward.job.states import LIVE, State
from onward.operate.pacing import live_by_queue, paces
from onward.operate.queue_pace import QueuePace
from onward.operate.series.measured import Measured
from onward.operate.series.points import TimedMeasures
from onward.telemetry.numbers import Histogram, Numbers, bucket_of


def an_overview(**due):
    queues = [
        QueueCounts(name=name, paused=False, counts=dict.fromkeys(LIVE, 0) | {State.AVAILABLE: count})
        for name, count in due.items()
    ]
    return Overview(counts={}, queues=queues, ended=0)


def minutes(number, each, ms=100):
    buckets = [0] * 24
    buckets[bucket_of(ms)] = each
    numbers = Numbers({"jobs_succeeded": each}, run=Histogram(each * ms, tuple(buckets)))
    return [TimedMeasures(at, Measured(numbers={("mail", "send"): numbers})) for at in range(number)]


def test_a_queue_has_its_rates_its_eta_and_its_percentile():
    pace = paces(minutes(5, 120), an_overview(mail=60), {"mail": 40}, 10.0)["mail"]

    assert pace.out == 2.0
    assert pace.enters == 4.0  # two a second ended, and two a second more are there
    assert pace.eta == 30.0
    assert 0.064 <= pace.p95 <= 0.128


def test_a_queue_that_is_paused_does_not_come_to_its_end():
    seen = an_overview(mail=60)
    paused = msgspec.structs.replace(seen, queues=[msgspec.structs.replace(each, paused=True) for each in seen.queues])

    pace = paces(minutes(5, 120), paused, {"mail": 40}, 10.0)["mail"]

    assert pace.eta is None
    assert pace.out == 2.0


def test_nothing_is_said_from_fewer_than_twenty_jobs():
    assert paces(minutes(1, 19), an_overview(mail=60), {"mail": 60}, 10.0) == {"mail": QueuePace()}
    assert paces(minutes(1, 20), an_overview(mail=60), {}, 0.0)["mail"].out is not None


def test_a_queue_that_nothing_ended_in_has_no_pace_and_no_number_is_negative():
    assert paces(minutes(5, 120), an_overview(web=3), {}, 10.0) == {"web": QueuePace()}
    assert paces(minutes(5, 120), an_overview(mail=0), {"mail": 900}, 10.0)["mail"].enters == 0.0
    assert paces([], an_overview(mail=1), {"mail": 0}, 10.0) == {"mail": QueuePace()}


def test_live_jobs_are_counted_in_all_their_states():
    assert live_by_queue(an_overview(mail=3, web=0)) == {"mail": 3, "web": 0}


def test_nothing_is_said_of_a_queue_that_was_not_counted_to_its_end():
    pace = paces(minutes(5, 120), an_overview(mail=60), {"mail": 60}, 10.0, 60)["mail"]

    assert (pace.out, pace.enters, pace.eta) == (2.0, None, None)
