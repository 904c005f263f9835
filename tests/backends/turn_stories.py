"""Random histories of a worker's turns, to be told to a store twice: what one road answers, another must answer too."""

import random

from onward.backend import Claim, Settlement
from onward.base.clock import SECOND
from onward.testing.contract.builders import SETTLEMENTS, a_failure, a_session, a_turn, an_envelope

__all__ = ["ODD", "QUEUES", "a_story", "settled", "told"]

QUEUES = (
    "default",
    "mail",
    "a queue with a name of more than 31 bytes",
    *(f"queue-{'x' * number}" for number in range(30)),
)
ODD = [
    {"delay": 5.0},
    {"unique_key": "k"},
    {"single_instance": "s"},
    {"payload": "long " * 200},
    {"priority": 7},
]


def a_story(seed, now):
    """Steps that a worker and others make: nearly all usual ones, and now and then any other."""
    chance, steps = random.Random(seed), []
    few = QUEUES[:3]
    for _ in range(60):
        odd = chance.random() < 0.15
        options = (
            chance.choice([*ODD, {"expires_at": now + SECOND}, {"expires_at": now + 10**6 * SECOND}]) if odd else {}
        )
        steps.append(
            (
                [an_envelope(queue=chance.choice((*few, *QUEUES)), **options) for _ in range(chance.randrange(6))],
                [chance.random() for _ in range(3)],
                chance.randrange(5),
                chance.choice([QUEUES, few, few[:1], few[::-1], (*few, *few), tuple(chance.sample(QUEUES, 9))]),
                chance.choice([{}, {}, {"mail": 1}, {"default": 0}]),
                chance.choice([*SETTLEMENTS, "at once", "stale", "forgets"]) if chance.random() < 0.2 else "ack",
                chance.choice(["pause", "resume", "cancel", "wait"]) if chance.random() < 0.1 else None,
            )
        )
    return steps


def settled(how, lease):
    if how == "at once":
        return Settlement.nack(lease, 0, failure=a_failure())
    if how == "forgets":
        return Settlement.ack(lease, keep=False)
    return Settlement.ack(lease) if how in ("ack", "stale") else SETTLEMENTS[how](lease)


def told(backend, clock, story, wakes=lambda: None):
    """What a worker is answered, step by step, and what ``wakes`` says after each."""
    backend.open_session(a_session(lease_for=10**6))
    held, old, answers = [], [], []
    for envelopes, chances, limit, queues, at_most, how, other in story:
        if envelopes:
            backend.enqueue(envelopes)
        if other == "pause":
            backend.pause("mail")
        elif other == "resume":
            backend.pause("mail", paused=False)
        elif other == "cancel" and held:
            backend.cancel([held[0].envelope.id], "enough")
        elif other == "wait":
            clock.advance(100)
        ends = [lease for lease, chance in zip(held, chances, strict=False) if chance < 0.8]
        settlements = [settled(how if at == 0 else "ack", lease) for at, lease in enumerate(ends)]
        if how == "stale" and old:
            settlements.append(Settlement.ack(old[0]))
        claim = Claim(queues=queues, limit=limit, at_most=at_most) if limit else None
        result = backend.turn(a_turn(*settlements, claim=claim))
        answers.append((result, wakes()))
        held = [lease for lease in held if lease not in ends] + result.leases
        old += ends
    return answers
