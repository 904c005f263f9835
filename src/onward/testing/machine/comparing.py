"""Comparing answers: without what the contract leaves to the backend, and in one order where the contract names none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from onward.backend import Lease, Look, Reaped, Run, Snapshot, StoredJob
from onward.testing.machine.asking import AskedModel

__all__ = ["agree", "jobs", "leases", "look", "reaped"]


def agree(what: str, found: object, expected: object) -> None:
    """Raise an `AssertionError` that names only what differs."""
    if found != expected:
        raise AssertionError("\n".join([f"{what} differs from the model", *_differences("", found, expected)]))


def _differences(where: str, found: Any, expected: Any) -> list[str]:
    if found == expected:
        return []
    if type(found) is type(expected):
        if isinstance(found, msgspec.Struct):
            found, expected = asdict(found), asdict(expected)
        if isinstance(found, dict) and found.keys() == expected.keys():
            return [line for key in found for line in _differences(f"{where}.{key}", found[key], expected[key])]
        if isinstance(found, list | tuple) and len(found) == len(expected):
            pairs = enumerate(zip(found, expected, strict=True))
            return [line for at, pair in pairs for line in _differences(f"{where}[{at}]", *pair)]
    return [f"  {where or 'it'}: the backend has {found!r}, the model {expected!r}"]


def leases(found: Sequence[Lease], *, ordered: bool = True) -> list[dict[str, Any]]:
    """Return leases without their receipts; with the part of the envelope that a `Sealed` has."""
    seen = []
    for lease in found if ordered else sorted(found, key=lambda lease: lease.envelope.id):
        envelope = lease.envelope
        seen.append(asdict(replace(lease, receipt=None)) | {"envelope": (envelope.id, envelope.queue, envelope.data)})
    return seen


def reaped(found: Sequence[Reaped], *, cause: str | None) -> list[Reaped]:
    """Sort them; the cause counts where one was given."""
    given = found if cause is not None else [replace(each, cause="") for each in found]
    return sorted(given, key=lambda each: each.id)


def jobs(expected: Sequence[StoredJob | None], found: Sequence[StoredJob | None]) -> list[StoredJob | None]:
    """Return the expected job, with the texts of the backend where the contract does not define them."""
    if len(expected) != len(found):
        return list(expected)
    pairs = zip(expected, found, strict=True)
    return [_in_its_words(mine, its) if mine and its and mine.id == its.id else mine for mine, its in pairs]


def _in_its_words(expected: StoredJob, found: StoredJob) -> StoredJob:
    if len(expected.runs) == len(found.runs):
        runs = tuple(_run_in_its_words(*pair) for pair in zip(expected.runs, found.runs, strict=True))
        expected = replace(expected, runs=runs)
    if (expected.reason or "").startswith("crashed") and (found.reason or "").startswith("crashed"):
        expected = replace(expected, reason=found.reason)
    return expected


def _run_in_its_words(expected: Run, found: Run) -> Run:
    """Return an expected run with the backend's message where the contract does not define it."""
    if expected.failure.kind == "" and expected.failure.message in found.failure.message:
        return replace(expected, failure=found.failure)
    return expected


def look(backend: Any, model: AskedModel) -> None:
    """Compare what one look sees."""
    groups: bool = backend.capabilities.groups_deaths
    seen: Snapshot = backend.look(Look(counts=True, deaths=groups))
    assert seen.overview is not None
    agree("the clock of look()", seen.now, model.now)
    agree("the counts of look()", seen.overview.counts, model.counts())
    agree("the queues of look()", seen.overview.queues, model.seen_queues())
    if groups:
        agree("the groups of look()", seen.deaths, model.death_groups(Look().at_most))
