"""What a store cannot do, each with the sentence that says what to use instead: faces grey it, and say why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from onward.backend import Backend, Counting, DeadLettering, Inspection
from onward.errors import Unsupported
from onward.operate.unsupported_inspection import inspection_of

__all__ = ["unsupported"]


def unsupported(backend: Backend) -> dict[str, str]:
    """Return the parts and acts that a store does not offer, with the reason of each."""
    return dict(_lacks(backend))


def _lacks(backend: Backend) -> Iterator[tuple[str, str]]:
    can, kind = backend.capabilities, type(backend).__name__
    for word, has, lacks in (
        ("groups", can.groups_deaths, "does not group dead jobs: they are listed one by one"),
        ("audit", can.audit, "keeps no audit trail: acts are logged by `onward.audit` only"),
        ("notes", can.notes, "keeps no notes: steps, sleeps and signals need a database or Redis"),
        ("signal", can.notes, "keeps no signals: use a database or Redis, or a store beside the broker"),
        ("schedules", can.schedules, "keeps no schedules: use a database or Redis, or a store beside the broker"),
        ("schedule", can.schedules, "keeps no schedules: use a database or Redis, or a store beside the broker"),
        ("flows", can.flows, "keeps no flows: use a database or Redis, or a store beside the broker"),
        ("flow", can.flows, "keeps no flows: use a database or Redis, or a store beside the broker"),
        ("limits", can.lanes, "keeps no limits: use a database or Redis as the url"),
        ("limit", can.lanes, "keeps no limits: use a database or Redis as the url"),
    ):
        if not has:
            yield word, f"{kind} {lacks}"
    if not isinstance(backend, Inspection):
        asked = inspection_of(backend)
        yield from ((word, told) for word, question in _QUESTIONS.items() if (told := _refusal(question, asked)))
        if not isinstance(backend, Counting):
            yield "queues", _refusal(_QUESTIONS["look"], asked)
        if not isinstance(backend, DeadLettering):
            yield from ((word, _refusal(_QUESTIONS["jobs"], asked)) for word in ("replay", "purge", "dead"))


# Each is refused by every broker, so that asking changes nothing.
_QUESTIONS: Mapping[str, Callable[[Inspection], object]] = {
    "look": lambda asked: asked.look(None),  # type: ignore[arg-type]
    "series": lambda asked: asked.look(None),  # type: ignore[arg-type]
    "jobs": lambda asked: asked.get(""),
    "workers": lambda asked: asked.sessions(),
    "retry": lambda asked: asked.retry(()),
    "cancel": lambda asked: asked.cancel((), ""),
    "edit": lambda asked: asked.get(""),
    "canary": lambda asked: asked.get_many(()),
    "pause": lambda asked: asked.pause(""),
}


def _refusal(question: Callable[[Inspection], object], asked: Inspection) -> str:
    try:
        question(asked)
    except Unsupported as error:
        return str(error)
    return ""
