"""Writing the letter of a job from a call, its options, its definition and the settings, and sealing it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from onward.backend import Backend, Capabilities
from onward.base.clock import SECOND, Clock
from onward.base.ids import IdMaker
from onward.base.names import job_name, queue_name
from onward.base.names import key as checked_key
from onward.client.laning import Lanes
from onward.client.stamps import Stamps
from onward.config import Settings
from onward.errors import ArgumentError, OptionError
from onward.job.arguments import encode_value
from onward.job.definition import EnqueueOptions, JobDefinition
from onward.job.envelope import Envelope, Form, Letter, Occurrence, open_sealed, owned_key, seal
from onward.job.payload_limits import refuse_misshapen
from onward.job.registry import Entry, Registry
from onward.job.retry import RetryPolicy, travels
from onward.job.secret_places import places_in
from onward.job.unique_key import UniqueKey
from onward.security.keys import Keys

__all__ = ["LetterWriter", "Sealer", "refuse_what_it_lacks"]

_NOWHERE: Mapping[str, str] = {}
_rewritten = msgspec.structs.replace


class Sealer(Protocol):
    """Turns the payloads of one job's calls into what is enqueued; with ids of the caller's, if there are any."""

    def __call__(self, payloads: Sequence[bytes], ids: Sequence[str] | None = None) -> list[Envelope]: ...


class LetterWriter:
    """Writes and seals the letters of one application.  Knows definitions and what the store can do; reaches no store."""

    def __init__(
        self, settings: Settings, registry: Registry, backend: Backend, keys: Keys, clock: Clock, *, lanes: Lanes
    ) -> None:
        self.registry = registry
        self.lanes = lanes
        self._backend = backend
        self.max_payload = settings.max_payload
        self._settings = settings
        self._keys = keys
        self._encryption = keys.encryption
        self._sign = keys.signing.sign
        self._clock = clock
        self._new_id = IdMaker(clock)
        self.stamps = Stamps()

    def new_id(self) -> str:
        """Make an id."""
        return self._new_id()

    def adopt_hooks(self, other: LetterWriter) -> None:
        """Stamp letters, and enter hooks around attempts, as another application does."""
        self.stamps, self.registry.hooks = other.stamps, other.registry.hooks

    @property
    def capabilities(self) -> Capabilities:
        """What the store can do.  Some stores have to ask their server first whether they are durable."""
        return self._backend.capabilities

    def seal(
        self,
        definition: JobDefinition,
        options: EnqueueOptions,
        payload: bytes,
        key_of: UniqueKey | None = None,
        secrets: tuple[str, ...] = (),
    ) -> Envelope:
        """Seal a call of a known job, with the budget frozen as it is now.

        ``key_of`` makes its unique key; ``secrets`` are the places of arguments that were given as a `Secret`.
        """
        if key_of is not None and options.unique_key is None:
            options = replace(options, unique_key=key_of(payload))
        return self._seal(self._letter_of(definition, options, payload, secrets), options)

    def sealer(self, entry: Entry, options: EnqueueOptions, into: Mapping[str, str] = _NOWHERE) -> Sealer:
        """Return the function that seals calls of one job; it computes once what they have in common.

        ``into``: the flow and node that they are members of.
        """
        definition, key_of = entry.definition, entry.unique_key if options.unique_key is None else None

        def each(payloads: Sequence[bytes], ids: Sequence[str] | None = None) -> list[Envelope]:
            if not into:
                return [self.seal(definition, options, payload, key_of) for payload in payloads]
            letters = [_rewritten(self._letter_of(definition, options, payload), **into) for payload in payloads]
            named = zip(letters, ids or self._new_id.many(len(letters)), strict=True)
            return [self._seal(_rewritten(letter, id=job_id), options) for letter, job_id in named]

        # Times that count from the moment of the call, keys of its arguments and stamps differ from letter to letter.
        timed = options.delay or options.expires_in is not None or definition.expires_in is not None
        rule = self.lanes.rule(definition.name)
        laned = rule is not None and rule.differs
        if timed or laned or key_of is not None or self.stamps.used:
            return each
        file, ring = self._keys.file, self._keys.look()
        form = self._form(definition, options, into)

        def fill(payloads: Sequence[bytes], ids: Sequence[str] | None = None) -> list[Envelope]:
            nonlocal form, ring
            if self.stamps.used:  # since this was made
                return each(payloads, ids)
            if file is not None and (current := file.look()) is not ring:
                form, ring = self._form(definition, options, into), current
            now = self._clock.micros()
            if ids is None:
                ids = [self._new_id()] if len(payloads) == 1 else self._new_id.many(len(payloads))
            return form.fill(ids, payloads, now)

        return fill

    def template(
        self,
        definition: JobDefinition,
        options: EnqueueOptions,
        payload: bytes,
        key_of: UniqueKey | None = None,
        *,
        is_member: bool = False,  # of a flow: its delay counts from when its node opens
    ) -> tuple[Letter, float | None]:
        """Return the letter of a call that is to be sealed often, in the clear, and how long each copy is valid."""
        if options.at is not None or (options.delay and not is_member):
            raise OptionError(f"{definition.name}: a schedule says when it runs: leave out delay and at")
        if options.idempotency_key is not None:
            raise OptionError(
                f"{definition.name}: with an idempotency_key no tick after the first would run: leave it out, every tick is "
                f"booked once as it is"
            )
        if key_of is not None and options.unique_key is None:
            options = replace(options, unique_key=key_of(payload))
        letter = self._letter_of(definition, options, payload)
        if options.expires_at is not None or (options.expires_in is None and definition.expires_at is not None):
            return _rewritten(letter, enqueued_at=0), None
        expires_in = definition.expires_in if options.expires_in is None else options.expires_in
        return _rewritten(letter, expires_at=None, enqueued_at=0), expires_in

    def refuse_too_large(self, letter: Letter) -> None:
        """Raise if the copies of a template could not be sealed."""
        seal(self._encryption.close(letter), limit=self.max_payload)

    def seal_again(
        self,
        letter: Letter,
        *,
        job_id: str | None = None,
        not_before: int | None = None,
        expires_at: int | None = None,
        schedule: Occurrence | None = None,
        delay: int = 0,
        expires_in: float | None = None,
        private: bool = False,
    ) -> Envelope:
        """Seal one copy of a template.  ``private``: encrypted whatever the setting, where that is possible."""
        now = self._clock.micros()
        if expires_in is not None:
            expires_at = now + round(expires_in * SECOND)
        copy = replace(
            letter,
            id=job_id or self._new_id(),
            enqueued_at=now,
            not_before=not_before,
            expires_at=letter.expires_at if expires_at is None else expires_at,
            enc=None,
            schedule=schedule,
        )
        self._keys.look()
        closed = self._encryption.close(copy, private=private)
        return seal(closed, delay=delay, sign=self._sign, limit=self.max_payload)

    def payload_of(self, envelope: Envelope) -> bytes:
        """Return the payload of a job that this application has just sealed, in the clear."""
        return bytes(self._encryption.open(open_sealed(envelope)).payload)

    def _form(self, definition: JobDefinition, options: EnqueueOptions, into: Mapping[str, str]) -> Form:
        letter = self._letter_of(definition, options, b"{}")
        letter, encrypt = self._encryption.form(_rewritten(letter, **into) if into else letter)
        return Form(letter, encrypt=encrypt, sign=self._sign, limit=self.max_payload)

    def encode(self, job: str, payload: Any) -> bytes:
        """Encode a payload given as data, checked against the job's signature where that is known here."""
        try:
            encoded = encode_value({} if payload is None else payload)
        except (TypeError, ValueError, RecursionError, OverflowError) as error:
            raise ArgumentError(f"{job}: the payload cannot travel as JSON: {error}") from None
        refuse_misshapen(encoded, job)
        entry = self.registry.find(job)
        if entry is not None:
            entry.check(encoded)
        return encoded

    def seal_by_name(self, job: str, payload: Any, options: EnqueueOptions) -> Envelope:
        """Seal a job that perhaps only another service knows: its definition there decides what is not given here."""
        encoded = self.encode(job_name(job), payload)
        entry = self.registry.find(job)
        if entry is not None:
            return self.seal(entry.definition, options, encoded, entry.unique_key, places_in(payload))
        letter = self._letter(
            job,
            options,
            encoded,
            queue=options.queue or "default",
            name=None,
            max_retries=options.max_retries,
            max_crashes=self._settings.max_crashes,
            priority=options.priority or 0,
            timeout=options.timeout,
            retry=options.retry,
            single_instance=bool(options.single_instance),
            isolation=None,
            unique_strategy=options.unique_strategy or "ignore_new",
            expires_at=self._expiry(options, None),
            meta=options.meta,
            secrets=places_in(payload),
        )
        return self._seal(letter, options)

    def idempotency_key(self, key: str, job: str | None) -> str:
        """Return an idempotency key as the store has it: of the job of this name, or without one of all jobs."""
        entry = None if job is None else self.registry.find(job_name(job))
        owner = "" if job is None else job if entry is None else entry.definition.name
        return owned_key(owner, self._encryption.key("idempotency", owner, checked_key(key, "key")) or "")

    def seal_copy(
        self,
        *,
        queue: str,
        job: str,
        payload: Mapping[str, Any],
        copy_id: str | None = None,
        secrets: tuple[str, ...] = (),
        private: bool = False,
        limit: int = sys.maxsize,  # its parts were bounded when they were stored; a dead job is not refused for its size
    ) -> Envelope:
        """Seal a job that Onward makes itself.  With a derived id, enqueueing it twice is harmless."""
        letter = Letter(
            id=copy_id or self._new_id(),
            namespace=self._settings.namespace,
            queue=queue_name(queue),
            job=job,
            payload=msgspec.Raw(msgspec.json.encode(payload)),
            max_crashes=self._settings.max_crashes,
            enqueued_at=self._clock.micros(),
            secrets=secrets,
        )
        self._keys.look()
        return seal(self._encryption.close(letter, private=private), sign=self._sign, limit=limit)

    def _letter_of(
        self, definition: JobDefinition, options: EnqueueOptions, payload: bytes, secrets: tuple[str, ...] = ()
    ) -> Letter:
        retries = options.max_retries if options.max_retries is not None else definition.max_retries
        return self._letter(
            definition.handler,
            options,
            payload,
            queue=options.queue or definition.queue,
            name=None if definition.name == definition.handler else definition.name,
            max_retries=self._settings.default_max_retries if retries is None else retries,
            max_crashes=definition.max_crashes or self._settings.max_crashes,
            priority=definition.priority if options.priority is None else options.priority,
            timeout=definition.timeout if options.timeout is None else options.timeout,
            retry=options.retry or definition.retry,
            single_instance=definition.single_instance if options.single_instance is None else options.single_instance,
            isolation=None if definition.isolation == "thread" else definition.isolation,
            unique_strategy=options.unique_strategy or definition.unique_strategy,
            expires_at=self._expiry(options, definition),
            meta={**definition.meta, **options.meta},
            secrets=tuple(dict.fromkeys((*self.registry.secrets_of(definition.handler), *secrets))),
        )

    def _letter(
        self,
        job: str,
        options: EnqueueOptions,
        payload: bytes,
        *,
        retry: RetryPolicy | None,
        meta: Mapping[str, Any],
        **fields: Any,
    ) -> Letter:
        now, delay = self._clock.micros(), round(options.delay * SECOND)
        owner = "" if options.key_scope == "global" else fields["name"] or job
        refuse_what_it_lacks(
            self.capabilities,
            job,
            unique_key=bool(options.unique_key),
            idempotency_key=options.idempotency_key is not None,
            single_instance=fields["single_instance"],
            priority=fields["priority"] != 0,
            delay=delay > 0 or options.at is not None,
            lane=options.lane is not None,
        )
        lane, cost = self.lanes.of_call(fields["name"] or job, payload, meta, options.lane)
        return Letter(
            id=self._new_id(),
            namespace=self._settings.namespace,
            job=job,
            payload=msgspec.Raw(payload),
            enqueued_at=now,
            not_before=options.at if options.at is not None else (now + delay if delay else None),
            retry=retry if travels(retry) else None,  # code stays with its decorator
            unique_key=self._encryption.key("unique", owner, options.unique_key or None),
            idempotency_key=self._encryption.key("idempotency", owner, options.idempotency_key),
            idempotency_ttl=self._idempotency_ttl(options),
            key_scope=options.key_scope,
            meta=_plain(meta) if meta else {},
            lane=lane,
            cost=cost,
            **fields,
        )

    def _idempotency_ttl(self, options: EnqueueOptions) -> float | None:
        if options.idempotency_key is None:
            return None
        return self._settings.idempotency_ttl if options.idempotency_ttl is None else options.idempotency_ttl

    def _seal(self, letter: Letter, options: EnqueueOptions) -> Envelope:
        # Here, not in `_letter`: a template is no call, and would be another with each stamp.
        if not self.stamps.used:
            return self._sealed(letter, options)
        try:
            meta = self.stamps.under(letter.meta, letter.job)
            lane, cost = self.lanes.of_call(letter.name or letter.job, bytes(letter.payload), meta, options.lane)
            return self._sealed(replace(letter, meta=meta, lane=lane, cost=cost), options)
        except BaseException as error:
            self.stamps.unsent(error)
            raise

    def _sealed(self, letter: Letter, options: EnqueueOptions) -> Envelope:
        delay = round(options.delay * SECOND)
        self._keys.look()
        letter = self._encryption.close(letter)
        envelope = seal(letter, delay=delay, sign=self._sign, limit=self.max_payload)
        # The store measures a relative delay: the instant in the letter is this host's estimate.
        return replace(envelope, not_before=None) if delay else envelope

    def _expiry(self, options: EnqueueOptions, definition: JobDefinition | None) -> int | None:
        for source in (options, definition):
            if source is None:
                continue
            if source.expires_at is not None:
                return source.expires_at
            if source.expires_in is not None:
                return self._clock.micros() + round(source.expires_in * SECOND)
        return None


_NEEDED = {
    "unique_key": "deduplicates",
    "idempotency_key": "holds",
    "single_instance": "holds",
    "priority": "priorities",
    "delay": "delays",
    "limit": "lanes",
    "breaker": "lanes",
    "lane": "lanes",
    "fair_by": "lanes",
    "queue_limits": "lanes",
}


_ANY_FIX = "leave it out, or use a database as the url"
_FIXES = {
    "lanes": "leave it out, or use a database or Redis as the url: a broker decides itself which job is next",
    "holds": 'give the broker a store, Onward(url, store="sqlite:///onward.db") or ONWARD_STORE, or use a database as url',
    "deduplicates": "no key can be taken in a broker and a store at once; use a database as the url, or an idempotency_key",
}


def refuse_what_it_lacks(capabilities: Capabilities, job: str, **asked: bool) -> None:
    """Raise for an option that this store cannot keep, before anything is stored: no option is silently ignored."""
    for option, given in asked.items():
        if given and not getattr(capabilities, _NEEDED[option]):
            needed = _NEEDED[option]
            raise OptionError(
                f"{job}: this store cannot keep {option} (it declares no `{needed}`): {_FIXES.get(needed, _ANY_FIX)}"
            )


def _plain(meta: Mapping[str, Any]) -> Any:
    """Return `meta` as a handler will get it."""
    try:
        return msgspec.json.decode(encode_value(meta))
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise OptionError(f"meta cannot travel as JSON: {error}") from None
