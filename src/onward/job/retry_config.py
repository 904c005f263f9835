"""A retry policy as code, a configuration file or the environment names it.

    Exponential(base=5, max=300)                            itself
    "exponential"                                           the name of its strategy
    "exponential, base=5, max=5m, jitter=additive:0.25"     … with parts, as in the environment
    {"strategy": "exponential", "base": 5, "max": "5m"}     a table, as in a file

The policy's class has the defaults of parts that are not given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import msgspec
from msgspec import UNSET

from onward.base.durations import seconds
from onward.base.names import suggestion
from onward.errors import InvalidTime, OptionError
from onward.job.retry import Additive, Equal, Full, Jitter, PlusMinus, PortablePolicy, RetryPolicy, built, chosen

__all__ = ["PolicyLike", "read_policy", "worded"]

PolicyLike = RetryPolicy | str | Mapping[str, Any]

_PARTS = ("base", "multiplier", "max", "jitter", "cap")
_JITTER_NAMES = {"plus_minus": PlusMinus, "additive": Additive, "full": Full, "equal": Equal}
_SWITCHES = {"true": True, "false": False, "none": None}


def read_policy(value: PolicyLike, where: str) -> RetryPolicy:
    """Read a policy itself; or the name of its strategy, alone or with parts; or a table of these.

    >>> read_policy("fixed", "retry"), read_policy("linear, base=2m", "retry").delay
    (Fixed(delay=30, max=None, jitter=None, cap='hard'), 120.0)
    >>> read_policy({"strategy": "exponential", "base": 5, "jitter": "full"}, "retry").jitter
    Full()
    """
    if isinstance(value, RetryPolicy):
        return value
    try:
        if isinstance(value, str):
            return _from_table(_table_of(value))
        if isinstance(value, Mapping):
            return _from_table(dict(value))
    except (OptionError, InvalidTime) as error:
        raise OptionError(f"{where}: {error}") from None
    if isinstance(value, type) and issubclass(value, RetryPolicy):
        raise OptionError(f"{where} must be a policy and not its class: write {value.__name__}()")
    raise OptionError(
        f"{where} must be a policy such as Exponential(base=5), the name of a strategy such as 'exponential', or a table "
        f"such as {{'strategy': 'exponential', 'base': 5}}, not {value!r:.60}"
    )


def worded(policy: PortablePolicy) -> str:
    """Write a policy as one text, which `read_policy` reads.

    >>> from onward import Exponential, NoDelay
    >>> worded(Exponential(base=5, jitter=None)), worded(NoDelay())
    ('exponential,base=5,multiplier=2.0,max=3600,jitter=none,cap=hard', 'none,max=none,jitter=none,cap=hard')
    """
    jitter = chosen(policy.jitter)
    parts: dict[str, Any] = {
        "base": getattr(policy, "base", getattr(policy, "delay", UNSET)),
        "multiplier": getattr(policy, "multiplier", UNSET),
        "max": "none" if policy.max is None else policy.max,
        "jitter": "none" if jitter is None else ":".join(map(str, (jitter.__struct_config__.tag, *_ratio(jitter)))),
        "cap": policy.cap,
    }
    words = [f"{part}={value}" for part, value in parts.items() if value is not UNSET]
    return ",".join([str(policy.__struct_config__.tag), *words])


def _ratio(jitter: Jitter) -> tuple[float, ...]:
    return msgspec.structs.astuple(jitter)


def _table_of(text: str) -> dict[str, Any]:
    """Read ``exponential, base=5, max=10m`` as the table that it stands for."""
    strategy, *words = (word.strip() for word in text.split(","))
    table: dict[str, Any] = {"strategy": strategy}
    for word in words:
        part, equals, value = (each.strip() for each in word.partition("="))
        if not equals:
            raise OptionError(f"{word!r:.60} is not part=value, as in 'exponential, base=5, max=300'")
        if part in table:
            raise OptionError(f"{part!r:.60} is given twice")
        table[part] = _number(value)
    return table


def _number(text: str) -> int | float | str:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def _from_table(table: dict[str, Any]) -> PortablePolicy:
    strategy = table.pop("strategy", None)
    if strategy is None:
        raise OptionError("the policy names no strategy: add one, such as 'exponential'")
    for part in table:
        if part not in _PARTS:
            raise OptionError(f"there is no part {part!r:.60}{suggestion(str(part), ('strategy', *_PARTS))}")
    return built(strategy, {part: _READERS.get(part, _as_given)(value) for part, value in table.items()})


def _as_given(value: Any) -> Any:
    return value


def _length(value: Any) -> Any:
    if value == "none":
        return None
    return seconds(value, "it") if isinstance(value, str | timedelta) else value


def _read_jitter(value: Any) -> Any:
    """Read ``true``, ``false``, or the name of a jitter, alone or with its ratio: ``additive:0.25``."""
    if not isinstance(value, str):
        return value
    if value in _SWITCHES:
        return _SWITCHES[value]
    name, colon, ratio = value.partition(":")
    if name not in _JITTER_NAMES:
        raise OptionError(f"there is no jitter {name!r:.60}{suggestion(name, (*_JITTER_NAMES, *_SWITCHES))}")
    if colon and name in {"full", "equal"}:
        raise OptionError(f"jitter {name!r} has no ratio: leave out {colon + ratio!r:.60}")
    kind: Any = _JITTER_NAMES[name]
    return kind(_number(ratio)) if colon else kind()  # which checks its ratio


_READERS: dict[str, Callable[[Any], Any]] = {"base": _length, "max": _length, "jitter": _read_jitter}
