"""The jobs of a build as data, and two builds compared without a store: what one has enqueued, can the other run it?"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import msgspec

from onward.errors import OptionError
from onward.job.registry import FunctionEntry, Registry
from onward.job.secrets import Secret
from onward.operate.deploy.problem import DeployProblem

__all__ = ["JobSignature", "ParameterSignature", "compared", "read_signatures", "signatures_of"]


class ParameterSignature(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter of a job."""

    required: bool
    schema: dict[str, Any]  # JSON Schema


class JobSignature(msgspec.Struct, frozen=True, kw_only=True):
    """What a job can be called with."""

    job: str
    aliases: tuple[str, ...] = ()
    queue: str = "default"
    parameters: dict[str, ParameterSignature] | None = None  # None: a handler by key, whose payload it checks itself


def signatures_of(registry: Registry) -> list[JobSignature]:
    """Return the signature of every job, by name."""
    found: dict[str, JobSignature] = {}
    for name in registry:
        entry = registry.find(name)
        if entry is None or entry.definition.name != name:
            continue
        definition = entry.definition
        found[name] = JobSignature(
            job=name,
            aliases=tuple(definition.aliases),
            queue=definition.queue,
            parameters=_parameters(entry) if isinstance(entry, FunctionEntry) else None,
        )
    return list(found.values())


def read_signatures(text: bytes) -> list[JobSignature]:
    """Read what ``onward job signatures --json`` has written."""
    try:
        return [_decode(line) for line in text.splitlines() if line.strip()]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise OptionError(
            f"these are no signatures ({error}): write them with `onward job signatures --json`"
        ) from None


def compared(old: Sequence[JobSignature], registry: Registry) -> list[DeployProblem]:
    """Return what this build may not run of the jobs that another build has enqueued."""
    new = {name: each for each in signatures_of(registry) for name in (each.job, *each.aliases)}
    served = registry.queues()
    return [problem for each in old for problem in _differences(each, new, served)]


def _differences(old: JobSignature, new: Mapping[str, JobSignature], served: Sequence[str]) -> Iterator[DeployProblem]:
    for name in (old.job, *old.aliases):
        if name not in new:
            told = f"the other build has the job {name!r}, and this one does not"
            yield _problem("unknown", name, told, "keep it, or its name as an alias: @jobs.job(aliases=[…])")
    if old.queue not in served:
        told = f"{old.job} was enqueued on queue {old.queue!r}, and this build serves {', '.join(served)}"
        yield _problem("unserved", old.queue, told, f"serve it until it is empty: onward worker --queues {old.queue},…")
    match = new.get(old.job)
    if match is None or old.parameters is None or match.parameters is None:
        return
    for name in match.parameters.keys() - old.parameters.keys():
        if match.parameters[name].required:
            told = f"`{old.job}({', '.join(old.parameters)})` became required `{name}`"
            yield _problem("missing_argument", old.job, told, _FIX)
    for name, parameter in old.parameters.items():
        yield from _changed(old.job, name, parameter, match.parameters.get(name))


def _changed(job: str, name: str, old: ParameterSignature, new: ParameterSignature | None) -> Iterator[DeployProblem]:
    if new is None:
        told = f"`{job}` has no parameter `{name}` any more"
        yield _problem("unknown_argument", job, told, "keep the parameter, with a default, or drain first")
        return
    if new.required and not old.required:
        yield _problem("missing_argument", job, f"the parameter `{name}` of `{job}` has no default any more", _FIX)
    if not _accepts(new.schema, old.schema):
        types = f"{_short(old.schema)} became {_short(new.schema)}"
        told = f"the parameter `{name}` of `{job}` may not take what it took: {types}"
        yield _problem("misfit", job, told, "let it take both types, or drain first")


_FIX = "give it a default, keep the old function under its old name, or drain first"


def _problem(code: str, subject: str, text: str, fix: str) -> DeployProblem:
    return DeployProblem(code=code, subject=subject, text=text, fix=fix)


def _accepts(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Return whether all that fits the old schema is known to fit the new one.

    >>> (
    ...     _accepts({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"type": "integer"}),
    ...     _accepts({}, {"type": "null"}),
    ... )
    (True, True)
    >>> _accepts({"type": "number"}, {"type": "integer"}), _accepts({"type": "integer"}, {"type": "string"})
    (True, False)
    """
    new, old = _plain(new), _plain(old)
    if not new or new == old or (new, old) == ({"type": "number"}, {"type": "integer"}):
        return True
    if "$defs" in new or "$defs" in old:
        return False
    if "anyOf" in old:
        return all(_accepts(new, each) for each in old["anyOf"])
    return "anyOf" in new and any(_accepts(each, old) for each in new["anyOf"])


def _plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without what decides nothing."""
    return {
        word: value for word, value in schema.items() if word not in ("title", "description", "default", "examples")
    }


def _short(schema: Mapping[str, Any]) -> str:
    return f"{msgspec.json.encode(_plain(schema)).decode():.120}"


def _parameters(entry: FunctionEntry) -> dict[str, ParameterSignature]:
    fields = msgspec.structs.fields(entry.arguments.struct)
    return {each.name: ParameterSignature(required=each.required, schema=_schema(each.type)) for each in fields}


def _schema(kind: Any) -> dict[str, Any]:
    if typing.get_origin(kind) is Secret:  # it travels as the value that it holds
        return _schema(*typing.get_args(kind))
    try:
        return msgspec.json.schema(kind, schema_hook=_of_other)
    except Exception:  # noqa: BLE001  some types can be read and have no schema: then they are compared by name
        return {"python": str(kind)}


def _of_other(kind: Any) -> dict[str, Any]:
    """Return the schema of a type that msgspec does not know."""
    if kind is Secret:  # of what is not said here
        return {"python": "Secret"}
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return {"type": "string"}
    if hasattr(kind, "model_json_schema"):
        found: dict[str, Any] = kind.model_json_schema()
        return found
    raise NotImplementedError


_decode = msgspec.json.Decoder(JobSignature).decode
