"""What each of Celery's options becomes: those of a task, and those of one call.

An option is used, accepted because Onward does it in any case, or refused with the way to say it here.  None is ignored: a
program that says something Onward does not do is told where it says it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from onward.base.names import suggestion
from onward.errors import OptionError
from onward.flow.limits import Limit
from onward.flow.zones import zone_named
from onward.job.retry import Exponential, Fixed, Full, RetryPolicy

__all__ = [
    "CALL_OPTIONS",
    "REFUSED_CALL_OPTIONS",
    "REFUSED_TASK_OPTIONS",
    "TASK_OPTIONS",
    "CeleryDifference",
    "aware",
    "check_call",
    "check_task",
    "job_options",
    "using_options",
    "warn",
]

MOST_RETRIES = 1_000_000  # of max_retries=None, which means no end
_GUIDE = "docs/from-celery.md"

# Used, or accepted because nothing is left to do: with what becomes of them.
TASK_OPTIONS = {
    "name": "the name of the job; `module.function` by default",
    "bind": "`self` is the task, with `request`, `retry()` and `onward`, the job's context",
    "max_retries": "`max_retries`, 3 by default; None: a million",
    "default_retry_delay": "`Fixed(180)`, where there is no back-off",
    "autoretry_for": "`retry_on`; without it an exception is final, and only `self.retry` comes back",
    "dont_autoretry_for": "`discard_on`",
    "retry_backoff": "`Exponential(base=…)`; True is a base of 1",
    "retry_backoff_max": "its `max`, 600 by default",
    "retry_jitter": "its `jitter=Full()`, on by default",
    "retry_kwargs": "`max_retries` and `countdown` of automatic retries",
    "soft_time_limit": "`timeout`; `SoftTimeLimitExceeded` is `JobTimeout`",
    "time_limit": '`timeout` and `isolation="process"`; beside `soft_time_limit` a warning',
    "rate_limit": "`Limit(rate=…, burst=1)`, in the whole fleet instead of in each worker",
    "queue": "`queue`",
    "priority": "`priority`: higher first, as with RabbitMQ; turn it round if the broker was Redis",
    "expires": "`expires`",
    "ignore_result": "no result is stored, unless it feeds a chain or a chord",
    "typing": "arguments are checked at `delay`; False leaves it to the run",
    "serializer": '"json", and nothing else',
    "acks_late": "True is what Onward does; False is a warning: a run may be repeated here",
    "onward": "options of `@jobs.job` that Celery has no word for: `onward={'max_crashes': 1}`",
    **dict.fromkeys(
        (
            *("acks_on_failure_or_timeout", "reject_on_worker_lost", "track_started", "store_errors_even_if_ignored"),
            *("throws", "trail", "send_events", "lazy", "shared", "resultrepr_maxsize"),
        ),
        "nothing to do",
    ),
}
CALL_OPTIONS = {
    "countdown": "`delay`",
    "eta": "`at`; a naive one is in the `timezone` of the settings",
    "expires": "`expires`",
    "queue": "`queue`",
    "priority": "`priority`",
    "soft_time_limit": "`timeout`",
    "serializer": '"json", and nothing else',
    "onward": "options of `job.using`: `onward={'unique_key': 'welcome:42'}`",
    **dict.fromkeys(("retry", "retry_policy", "ignore_result"), "nothing to do"),
}
REFUSED_CALL_OPTIONS = {
    "task_id": "Onward makes the ids; give onward={'unique_key': …} for one live job per key, or 'idempotency_key'",
    "link": "say what comes after with a chain: (task.s() | after.s())",
    "link_error": "build a flow: app.jobs.flow(…).add(…, when='failed')",
    "time_limit": "declare it, @app.task(time_limit=…), or give soft_time_limit",
    "routing_key": "write queue=…",
    "exchange": "write queue=…",
    "compression": "leave it out; keep large data elsewhere and pass a reference",
    "headers": "write onward={'meta': {…}}, which the run finds in self.onward.meta",
    "shadow": "a job has the name of its task",
    **dict.fromkeys(("producer", "connection", "publisher"), "Onward keeps its own connections: leave it out"),
    **dict.fromkeys(("group_id", "group_index"), "use group(…)"),
    "chord": "use chord(…)",
    "chain": "use chain(…)",
    **dict.fromkeys(("add_to_parent", "parent_id", "root_id"), "a job has no parent: leave it out"),
    "retries": "a job counts its own runs: leave it out",
    "reply_to": "leave it out, and ask AsyncResult(id)",
    "result_cls": "leave it out: AsyncResult is the one class of results",
    **dict.fromkeys(("argsrepr", "kwargsrepr"), "leave it out: arguments are shown by name, and secret ones masked"),
    **dict.fromkeys(("router", "route_name", "exchange_type"), "write queue=…, or task_routes in the settings"),
    **dict.fromkeys(
        ("delivery_mode", "mandatory", "immediate", "declare", "confirm_timeout"),
        "leave it out: the call returns when the job is stored durably",
    ),
    **dict.fromkeys(("content_type", "content_encoding"), 'leave it out: arguments travel as JSON, serializer="json"'),
    "expiration": "write expires=…",
    "timeout": "write soft_time_limit=…, for the run",
}

REFUSED_TASK_OPTIONS = {
    **dict.fromkeys(
        ("base", "abstract", "Request", "Strategy"),
        "wrap the runs of all tasks with @app.jobs.around instead of a class of your own",
    ),
    "compression": "leave it out; keep large data elsewhere and pass a reference",
    **dict.fromkeys(
        ("pydantic", "pydantic_strict", "pydantic_context", "pydantic_dump_kwargs"),
        "leave it out and validate in the task, or declare an Onward job, which reads pydantic models",
    ),
    "task_id": "Onward makes the ids; for one live job per key give each call one, onward={'unique_key': 'welcome:42'}",
    "countdown": "give it to the call, .apply_async(…, countdown=…)",
    "eta": "give it to the call, .apply_async(…, eta=…)",
    "headers": "give each call what it needs, onward={'meta': {…}}; the run finds it in self.onward.meta",
    "shadow": "a job has the name of its task: write name=…",
    "backend": "leave it out: results are in the store, and AsyncResult(id) finds them",
    "link": "say what comes after with a chain: (task.s() | after.s())",
    "link_error": "build a flow: app.jobs.flow(…).add(…, when='failed')",
    "routing_key": "write queue=…",
    "exchange": "write queue=…",
    **dict.fromkeys(
        ("on_failure", "on_success", "on_retry", "after_return", "before_start"),
        "subscribe to events, app.jobs.on(onward.telemetry.JobDiscarded, function), or wrap runs, @app.jobs.around",
    ),
}

_OF_RETRIES = {"max_retries", "countdown"}


class CeleryDifference(UserWarning):
    """An option means less here than with Celery.  The guide says what to do about it."""


def check_task(name: str, said: Mapping[str, Any]) -> None:
    """Raise for the options of a task that are unknown, or that have no meaning here; warn of those that mean less."""
    _check(f"task {name}", said, TASK_OPTIONS, REFUSED_TASK_OPTIONS)
    if said.get("acks_late") is False:
        warn(f"task {name}: acks_late=False does not mean at most once here: a run whose worker dies is repeated")
    if said.get("time_limit") and said.get("soft_time_limit"):
        warn(
            f"task {name}: a run is interrupted at soft_time_limit and not killed at time_limit: give time_limit alone for "
            f"a process of its own, which is killed"
        )
    for option in ("autoretry_for", "dont_autoretry_for"):
        given = said.get(option) or ()
        if not isinstance(given, tuple | list | set | frozenset):
            raise OptionError(f"task {name}: {option} takes a tuple of exceptions, (KeyError,), not {given!r:.60}")
    if not isinstance(said.get("retry_backoff") or 0, int | float):
        raise OptionError(
            f"task {name}: retry_backoff is True or a number of seconds, not {said['retry_backoff']!r:.60}"
        )
    if not isinstance(said.get("retry_kwargs") or {}, Mapping):
        raise OptionError(
            f"task {name}: retry_kwargs is a table, {{'max_retries': 5}}, not {said['retry_kwargs']!r:.60}"
        )
    for option in said.get("retry_kwargs") or {}:
        if option not in _OF_RETRIES:
            raise OptionError(f"task {name}: retry_kwargs has max_retries and countdown here, and no {option!r}")


def check_call(name: str, said: Mapping[str, Any]) -> None:
    """Raise for the options of a call that are unknown, or that have no meaning here."""
    _check(f"{name}.apply_async", said, CALL_OPTIONS, REFUSED_CALL_OPTIONS)
    if not isinstance(said.get("countdown") or 0, int | float):
        raise OptionError(f"{name}.apply_async: countdown is a number of seconds, not {said['countdown']!r:.60}")


def _check(where: str, said: Mapping[str, Any], known: Mapping[str, str], refused: Mapping[str, str]) -> None:
    for option in said:
        if option in refused:
            raise OptionError(f"{where}: {option} has no meaning here: {refused[option]}")
        if option not in known:
            raise OptionError(f"{where} has no option {option!r}{suggestion(option, known)}")
    if said.get("serializer", "json") != "json":
        raise OptionError(f"{where}: arguments travel as JSON, not as {said['serializer']!r:.40}: pass plain data")
    if not isinstance(said.get("onward") or {}, Mapping):
        raise OptionError(f"{where}: onward takes a table of options, onward={{'meta': {{…}}}}")


def warn(message: str, *, stacklevel: int = 5) -> None:
    """Warn of what means less here than with Celery, with the page that says what to do."""
    warnings.warn(f"{message} ({_GUIDE})", CeleryDifference, stacklevel=stacklevel)


def job_options(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `@jobs.job` for those of a task, with the defaults of the settings among them."""
    options: dict[str, Any] = {
        "max_retries": _budget(said),
        "retry_on": tuple(said.get("autoretry_for") or ()),
        "discard_on": tuple(said.get("dont_autoretry_for") or ()),
        "retry": _policy(said),
    }
    options |= {word: said[word] for word in ("queue", "priority", "expires") if said.get(word) is not None}
    soft, hard = said.get("soft_time_limit"), said.get("time_limit")
    if soft or hard:
        options["timeout"] = soft or hard
    if hard and not soft:
        options["isolation"] = "process"
    if said.get("rate_limit"):
        options["limit"] = _rate(said["rate_limit"])
    return options | dict(said.get("onward") or {})


def _budget(said: Mapping[str, Any]) -> int:
    given = (said.get("retry_kwargs") or {}).get("max_retries", said.get("max_retries", 3))
    return MOST_RETRIES if given is None else given


def _policy(said: Mapping[str, Any]) -> RetryPolicy:
    """Return how long automatic retries wait."""
    backoff = said.get("retry_backoff", False)
    if not backoff:
        return Fixed((said.get("retry_kwargs") or {}).get("countdown", said.get("default_retry_delay", 180)))
    jitter = Full() if said.get("retry_jitter", True) else None
    return Exponential(base=max(1, int(backoff)), max=said.get("retry_backoff_max", 600), jitter=jitter)


def _rate(given: Any) -> Limit:
    """Return the limit that ``"10/m"``, or a number a second, stands for.  Celery's bucket holds one token, so does this."""
    text = f"{given}/s" if isinstance(given, int) else given
    if isinstance(text, str) and "/" not in text:
        text = f"{text}/s"
    return Limit(rate=text, burst=1)


def using_options(said: Mapping[str, Any], zone: str) -> dict[str, Any]:
    """Return the options of `job.using` for those of a call."""
    options: dict[str, Any] = {}
    if said.get("countdown"):
        options["delay"] = max(0, said["countdown"])
    if said.get("eta") is not None:
        options["at"] = aware(said["eta"], zone)
    if said.get("expires") is not None:
        options["expires"] = aware(said["expires"], zone) if isinstance(said["expires"], datetime) else said["expires"]
    options |= {word: said[word] for word in ("queue", "priority") if said.get(word) is not None}
    if said.get("soft_time_limit"):
        options["timeout"] = said["soft_time_limit"]
    return options | dict(said.get("onward") or {})


def aware(instant: Any, zone: str) -> Any:
    """Return an instant in the zone of the settings, if it names none itself."""
    if not isinstance(instant, datetime) or instant.tzinfo is not None:
        return instant
    return instant.replace(tzinfo=zone_named(zone))
