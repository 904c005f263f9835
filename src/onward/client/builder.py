"""Building jobs for handlers that are named by key: ``jobs.define("shell", [...]).queue("ops").dispatch()``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from inspect import isroutine
from typing import Any, Literal

from onward.base import names
from onward.base.durations import Duration
from onward.client.bound_job import HandleSource, JobHandle
from onward.client.client import Client
from onward.errors import ArgumentError
from onward.job.definition import EnqueueOptions, JobDefinition
from onward.job.envelope import UniqueStrategy
from onward.job.registry import HandlerEntry
from onward.job.retry_config import PolicyLike
from onward.job.secret_places import places_in

__all__ = ["Builder"]


class Builder:
    """Builds one job.  Each method returns a new builder; only `dispatch` enqueues."""

    def __init__(
        self, handler: str, payload: Any, client: Client, handles: HandleSource, said: Mapping[str, Any] | None = None
    ) -> None:
        self._handler = names.job_name(handler)
        self._payload = payload
        self._client = client
        self._handles = handles
        self._said = dict(said or {})

    def named(self, name: str) -> Builder:
        """Name the job for people; keys and the single instance belong to this name.  It chooses no code."""
        return self._with(name=names.job_name(name))

    def queue(self, name: str) -> Builder:
        return self._with(queue=names.queue_name(name))

    def priority(self, priority: int) -> Builder:
        return self._with(priority=priority)

    def max_retries(self, retries: int) -> Builder:
        return self._with(max_retries=retries)

    def max_attempts(self, attempts: int) -> Builder:
        return self._with(max_attempts=attempts)

    def retry(self, policy: PolicyLike) -> Builder:
        return self._with(retry=policy)

    def timeout(self, timeout: Duration) -> Builder:
        return self._with(timeout=timeout)

    def delay(self, delay: Duration) -> Builder:
        return self._with(delay=delay)

    def at(self, when: datetime) -> Builder:
        return self._with(at=when)

    def expires(self, expires: Duration | datetime) -> Builder:
        return self._with(expires=expires)

    def meta(self, meta: Mapping[str, Any]) -> Builder:
        return self._with(meta=meta)

    def single_instance(self) -> Builder:
        return self._with(single_instance=True)

    def unique_key(self, key: str, strategy: UniqueStrategy = "ignore_new") -> Builder:
        return self._with(unique_key=key, unique_strategy=strategy)

    def idempotency_key(self, key: str, ttl: Duration | None = None) -> Builder:
        return self._with(idempotency_key=key, idempotency_ttl=ttl)

    def key_scope(self, scope: Literal["job", "global"]) -> Builder:
        return self._with(key_scope=scope)

    def to_definition(self) -> JobDefinition:
        """Return the job that was built, as an immutable value."""
        options = self._options()
        return JobDefinition(
            name=self._said.get("name", self._handler),
            handler=self._handler,
            queue=options.queue or "default",
            priority=options.priority or 0,
            max_retries=options.max_retries,
            retry=options.retry,
            timeout=options.timeout,
            single_instance=bool(options.single_instance),
            expires_in=options.expires_in,
            expires_at=options.expires_at,
            meta=options.meta,
            payload=self._payload,
        )

    def dispatch(self) -> JobHandle[Any]:
        """Enqueue the job.  Returns when it is durable."""
        payload = self._client.letters.encode(self._handler, self._admitted())
        secrets = places_in(self._payload)
        envelope = self._client.letters.seal(self.to_definition(), self._options(), payload, secrets=secrets)
        (answer,) = self._client.enqueue([envelope])
        return self._handles.handle(answer, envelope)

    def _admitted(self) -> Any:
        """Return the payload as it travels: of a function only a number does, and only within a process."""
        entry = self._client.letters.registry.find(self._handler)
        if isinstance(entry, HandlerEntry):
            return entry.admit(self._payload)
        if isroutine(self._payload):
            raise ArgumentError(
                f"{self._handler}: a function cannot travel: make it a job with @jobs.job; or, on memory:// and sync://, "
                f"turn on handlers={{'callable': {{}}}}"
            )
        return self._payload

    def _options(self) -> EnqueueOptions:
        return EnqueueOptions.check({name: value for name, value in self._said.items() if name != "name"})

    def _with(self, **words: Any) -> Builder:
        said = {**self._said, **words}
        EnqueueOptions.check({name: value for name, value in said.items() if name != "name"})
        return Builder(self._handler, self._payload, self._client, self._handles, said)
