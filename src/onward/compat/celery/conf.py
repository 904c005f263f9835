"""The settings of an application, by Celery's names: used, left to Celery, or refused."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from onward.base.names import matcher, suggestion
from onward.compat.celery.choosing import all_are_onwards
from onward.compat.celery.options import warn
from onward.errors import InvalidSchedule, OptionError
from onward.flow.zones import zone_named

__all__ = ["OF_CELERY", "REFUSED_SETTINGS", "SAID_ELSEWHERE", "SETTINGS", "Conf"]

SETTINGS = {
    "beat_schedule": "schedules, declared by the code",
    "timezone": "the zone of `crontab` and of naive instants; UTC by default",
    "enable_utc": "True, and nothing else",
    "imports": "modules with tasks, imported with the application's jobs",
    "include": "the same",
    "task_always_eager": "`sync://`: jobs run where they are enqueued",
    "task_eager_propagates": "nothing to do: `get()` raises",
    "task_default_queue": "the queue of tasks that name none; `default` by default",
    "task_default_priority": "the priority of tasks that name none",
    "task_default_rate_limit": "the `rate_limit` of tasks that name none",
    "task_routes": "queues by name or pattern: `{'mail.*': {'queue': 'mail'}}`",
    "task_time_limit": "the `time_limit` of tasks that name none",
    "task_soft_time_limit": "the `soft_time_limit` of tasks that name none",
    "task_ignore_result": "the `ignore_result` of tasks that name none",
    "task_acks_late": "nothing to do: it is what Onward does",
    "task_serializer": '"json"',
    "result_serializer": '"json"',
    "accept_content": '["json"]',
    "result_accept_content": '["json"]',
    "task_track_started": "nothing to do",
    "task_reject_on_worker_lost": "nothing to do",
    "task_acks_on_failure_or_timeout": "nothing to do",
    "task_send_sent_event": "nothing to do",
    "task_publish_retry": "nothing to do",
    "task_publish_retry_policy": "nothing to do",
    "task_store_errors_even_if_ignored": "nothing to do",
    "task_remote_tracebacks": "nothing to do",
    "task_store_eager_result": "nothing to do: results are always stored",
    "task_create_missing_queues": "nothing to do: a queue exists as soon as a job is in it",
    **dict.fromkeys(
        (
            *("task_create_missing_queue_type", "task_create_missing_queue_exchange_type", "task_default_queue_type"),
            *("task_default_exchange_type", "task_default_delivery_mode", "task_queue_max_priority", "task_protocol"),
        ),
        "nothing to do: of Celery's broker, for tasks that stay there",
    ),
}
REFUSED_SETTINGS = {
    "task_annotations": "give the options to the tasks",
    "task_compression": "keep large data elsewhere and pass a reference",
    "task_queues": "give queues to tasks, or to task_routes; `onward worker --queues` says what is served",
    "task_default_exchange": "write task_default_queue",
    "task_default_routing_key": "write task_default_queue",
    "task_inherit_parent_priority": "give each part of a canvas its own, task.s().set(priority=…)",
    "task_allow_error_cb_on_chord_header": "build a flow: app.jobs.flow(…).add(…, when='failed')",
    **dict.fromkeys(
        ("security_key", "security_key_password", "security_certificate", "security_cert_store", "security_digest"),
        "sign jobs with Onward's keys: Celery('shop', jobs=Onward(signing='require', signing_keys=…))",
    ),
}
# Of Celery's broker, results and processes: for tasks that stay with Celery.  Onward has its own settings.
OF_CELERY = (
    *("broker_", "result_", "worker_", "redis_", "database_", "event_", "control_", "cache_", "mongodb_", "beat_"),
    *("elasticsearch_", "cassandra_", "s3_", "azureblockblob_", "couchbase_", "gcs_", "arangodb_", "cosmosdbsql_"),
)
# Of these, what a program may count on: a warning, unless tasks are left to Celery.
SAID_ELSEWHERE = {
    "beat_scheduler": "entries that it keeps elsewhere, as in a database, are not read here: write them into beat_schedule",
    "result_expires": "say how long results are kept, Celery('shop', jobs=Onward(retention={'completed': '1d'}))",
    "worker_concurrency": "say it to the worker, `onward worker --concurrency`",
    "worker_max_tasks_per_child": "say it to the worker, `onward worker --max-jobs-per-process`",
    "worker_max_memory_per_child": "say it to the worker, `onward worker --max-rss`",
}
_OF_TASKS = {
    "task_default_queue": "queue",
    "task_default_priority": "priority",
    "task_default_rate_limit": "rate_limit",
    "task_time_limit": "time_limit",
    "task_soft_time_limit": "soft_time_limit",
    "task_ignore_result": "ignore_result",
}


class Conf(MutableMapping[str, Any]):
    """``app.conf``: as attributes, by ``update``, or as a mapping.  A name that is none of Celery's is refused."""

    _values: dict[str, Any]

    def __init__(self) -> None:
        object.__setattr__(self, "_values", {})

    def __setitem__(self, name: str, value: Any) -> None:
        if name in REFUSED_SETTINGS:
            raise OptionError(f"app.conf.{name} has no meaning here: {REFUSED_SETTINGS[name]}")
        if name not in SETTINGS and not name.startswith(OF_CELERY):
            raise OptionError(f"app.conf has no setting {name!r:.60}{suggestion(name, SETTINGS)}")
        _refuse_other_forms(name, value)
        if name in SAID_ELSEWHERE and value is not None and all_are_onwards():
            warn(f"app.conf.{name} is for tasks that stay with Celery: {SAID_ELSEWHERE[name]}", stacklevel=4)
        self._values[name] = value

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __delitem__(self, name: str) -> None:
        del self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        if name in self._values:
            return self._values[name]
        if name in SETTINGS or name.startswith(OF_CELERY):
            return {} if name == "beat_schedule" else None
        raise AttributeError(f"app.conf has no setting {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    @property
    def zone(self) -> str:
        """The time zone of schedules and of naive instants."""
        return str(self._values.get("timezone") or "UTC")

    def defaults(self, task: str) -> dict[str, Any]:
        """Return the options of a task that says none itself."""
        said = {word: self._values[name] for name, word in _OF_TASKS.items() if self._values.get(name) is not None}
        return said | self._route(task)

    def _route(self, task: str) -> dict[str, Any]:
        routes = self._values.get("task_routes") or {}
        for pattern, where in routes.items() if isinstance(routes, Mapping) else routes:
            if matcher(pattern)(task):
                return {"queue": where} if isinstance(where, str) else dict(where)
        return {}

    def read(self, source: Any, namespace: str | None = None) -> None:
        """Take the settings of a module, an object or a mapping; with a namespace, those that begin with it."""
        if isinstance(source, str):
            module, _, path = source.partition(":")
            source = importlib.import_module(module)
            for part in filter(None, path.split(".")):
                source = getattr(source, part)
        found = source if isinstance(source, Mapping) else {name: getattr(source, name) for name in dir(source)}
        start = f"{namespace}_" if namespace else ""
        for name, value in found.items():
            if start and name.startswith(start):
                self[name.removeprefix(start).lower()] = value
            elif not start and not name.startswith("_") and name.islower() and name in _known(name):
                self[name] = value


def _known(name: str) -> tuple[str, ...]:
    """Return the name itself if it is one of Celery's: a module of settings may have names of its own."""
    return (name,) if name in SETTINGS or name in REFUSED_SETTINGS or name.startswith(OF_CELERY) else ()


def _refuse_other_forms(name: str, value: Any) -> None:
    if name in ("task_serializer", "result_serializer") and value != "json":
        raise OptionError(f"app.conf.{name}: data travels as JSON, not as {value!r:.40}: pass plain data")
    if name in ("accept_content", "result_accept_content") and set(value) - {"json", "application/json"}:
        raise OptionError(f"app.conf.{name} may hold 'json' and nothing else, not {value!r:.60}: pass plain data")
    if name == "enable_utc" and value is not True:
        raise OptionError(
            "app.conf.enable_utc is True here: instants are UTC, and timezone says how schedules are read"
        )
    if name == "timezone" and value is not None:
        try:
            zone_named(str(value))
        except InvalidSchedule as error:
            raise OptionError(f"app.conf.timezone: {error}") from None
    if name == "task_routes":
        _check_routes(value)


def _check_routes(routes: Any) -> None:
    pairs = routes.items() if isinstance(routes, Mapping) else routes if isinstance(routes, list | tuple) else None
    for pair in pairs or ():
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise OptionError(f"app.conf.task_routes has names or patterns with a queue each, not {pair!r:.60}")
        said = {"queue": pair[1]} if isinstance(pair[1], str) else pair[1]
        if not isinstance(said, Mapping) or set(said) - {"queue", "priority"}:
            raise OptionError(
                f"app.conf.task_routes[{pair[0]!r}] takes {{'queue': …, 'priority': …}}, not {said!r:.60}"
            )
    if pairs is None and routes is not None:
        raise OptionError(
            "app.conf.task_routes is a table, {'mail.*': {'queue': 'mail'}}: a function cannot be read here"
        )
