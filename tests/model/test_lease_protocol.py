"""The lease protocol holds in every state, and each of its rules is needed: without it there is a counterexample."""

import os

import pytest

from tests.model.explorer import STRANDED
from tests.model.lease_protocol import INVARIANTS, Size, explore_leases
from tests.model.lease_store import Rules

SIZES = [
    Size(workers=1, jobs=1, cuts=1, deaths=1, pauses=1),
    Size(workers=1, jobs=1, cuts=3, pauses=1),
    Size(workers=2, jobs=1, cuts=2, pauses=1),
    Size(workers=2, jobs=1, cuts=1, deaths=1),
    Size(workers=2, jobs=1, deaths=1, pauses=1),
    Size(workers=2, jobs=1, cuts=1, releases=1),
    Size(workers=2, jobs=2, cuts=1),
    Size(workers=2, jobs=2, pauses=1),
    Size(workers=2, jobs=2, slots=2, cuts=1),
    Size(workers=3, jobs=1, cuts=1),
    Size(workers=3, jobs=1, pauses=1),
    Size(workers=3, jobs=1, deaths=1),
]
LARGE = [
    Size(workers=1, jobs=1, cuts=2, deaths=1, pauses=1),
    Size(workers=1, jobs=2, slots=2, cuts=1, pauses=1, releases=1),
    Size(workers=2, jobs=1, cuts=1, deaths=1, pauses=1),
    Size(workers=2, jobs=2, deaths=1),
    Size(workers=2, jobs=2, slots=2, pauses=1),
    Size(workers=3, jobs=1, cuts=1, pauses=1),
]
PROOF = os.environ.get("HYPOTHESIS_PROFILE") == "proof"


@pytest.mark.timeout(3_600 if PROOF else 120)
@pytest.mark.parametrize("size", SIZES + LARGE * PROOF, ids=str)
def test_the_protocol_holds_in_every_state(size, report):
    found = explore_leases(size)

    report(f"lease protocol, {size}: {found}")
    assert found.broken is None, found


@pytest.mark.parametrize("size", [Size(workers=1, jobs=1, cuts=2, pauses=1), Size(workers=2, jobs=1, cuts=2)], ids=str)
def test_a_new_name_for_every_try_would_do_as_well(size, report):
    found = explore_leases(size, Rules(new_names=True, adoption_needs_a_row=False))

    report(f"lease protocol, a new name for every try, {size}: {found}")
    assert found.broken is None, found


# Each broken rule: how much world it takes, the invariant that goes, and steps that cannot be missing from the way there.
BROKEN = {
    "a worker that was cut off goes on in its session": (
        Rules(after_a_cut="go on"),
        Size(workers=1, jobs=1, cuts=1),
        "no lease is forgotten",
        ["executes a turn of A1", "A is cut off"],
    ),
    "a worker that was cut off asks once what it holds": (
        Rules(after_a_cut="read back"),
        Size(workers=1, jobs=1, cuts=1),
        "no lease is forgotten",
        ["A is cut off", "executes the opening of A1", "A hears the answer", "executes a turn of A1, late"],
    ),
    "a worker that was cut off sends the turn again, by its number": (
        Rules(after_a_cut="resend"),
        Size(workers=1, jobs=1, cuts=1),
        "no lease is forgotten",
        [
            "A is cut off and sends a turn of A1",
            "A fails job 0",
            "executes a turn of A1",
            "executes a turn of A1, late",
        ],
    ),
    "a turn does not look for its session": (
        Rules(turns_need_a_session=False),
        Size(workers=1, jobs=1, cuts=1),
        "a lease has a session",
        ["A is cut off", "executes the opening of A2, adopting A1", "executes a turn of A1, late"],
    ),
    "a late copy of an adoption opens a session where there is none": (
        Rules(adoption_needs_a_row=False),
        Size(workers=2, jobs=1, cuts=2, pauses=1),
        "no job is valid for two workers",
        ["is cut off", "is cut off", "executes the opening of", "the reaper sweeps", "executes a turn of", ", late"],
    ),
    "a settlement is matched by id alone": (
        Rules(fence="none"),
        Size(workers=1, jobs=1, cuts=1),
        "a job finishes once",
        ["A finishes job 0", "executes a turn of A1", "A is cut off", "executes a turn of A2"],
    ),
    "a settlement is matched by id and state": (
        Rules(fence="state"),
        Size(workers=2, jobs=1, cuts=1),
        "a lease ends once",
        ["A fails job 0", "executes a turn of A1", "A is cut off", "executes a turn of B1", "executes a turn of A2"],
    ),
    "the reaper writes what it read before": (
        Rules(reaper_is_atomic=False),
        Size(workers=2, jobs=1, pauses=1),
        "a lease ends once",
        ["A finishes job 0", "the reaper reads A1", "executes a turn of A1", "the reaper writes"],
    ),
    "the reaper leaves the session": (
        Rules(reaping_ends_the_session=False),
        Size(workers=2, jobs=1, pauses=1),
        "no job is valid for two workers",
        ["executes a turn of A1", "the reaper sweeps A1", "executes a turn of B1", "B hears the answer"],
    ),
    "a dead session's settlements are not classified": (
        Rules(the_dead_are_classified=False),
        Size(workers=1, jobs=1, cuts=1, pauses=1),
        "answers are true",
        ["A finishes job 0", "executes a turn of A1", "A is cut off", "the reaper sweeps A2", "executes a turn of A2"],
    ),
    "a worker is not told that its session is gone": (
        Rules(renewals_are_answered=False),
        Size(workers=1, jobs=1, pauses=1),
        STRANDED,
        ["executes a turn of A1", "A1 expires", "the reaper sweeps A1"],
    ),
}


@pytest.mark.parametrize("without", BROKEN)
def test_every_rule_is_needed(without, report):
    rules, size, invariant, steps = BROKEN[without]

    found = explore_leases(size, rules, [invariant] if invariant in INVARIANTS else [])

    report(f"lease protocol, if {without}: {found}")
    assert found.broken == invariant
    assert in_order(steps, found.path), found


def test_what_is_forgotten_is_stranded():
    """The same first defect, told by liveness alone: no way to the end is left but one more fault."""
    found = explore_leases(Size(workers=2, jobs=1, cuts=1), Rules(after_a_cut="go on"), invariants=[])

    assert found.broken == STRANDED
    assert found.path[-1].startswith("worker A is cut off")


def in_order(steps, path):
    left = iter(path)
    return all(any(step in taken for taken in left) for step in steps)
