"""Editing the arguments of a dead job: a new job with them is signed and enqueued; the old one stays dead.

The id of the new job is derived from the old one's id, its last delivery and the new arguments, so to repeat an edit whose
answer was lost makes no second job.  Everything but the arguments is taken over as it was sealed: the job's name, its queue
and its budget choose code and power, and no operator changes them.

Onward signs the new job like any other.  So, where signatures are required, the old one must verify first: else a person who
can write to the store could get any bytes signed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from onward.backend import AuditQuery, Inspection, Look, StoredJob
from onward.base.clock import Clock
from onward.base.ids import edited_id
from onward.base.lazy import hashlib
from onward.client.client import Client
from onward.client.record import Records, payload_of
from onward.errors import ArgumentError, JobNotFound, OnwardError, OptionError, SigningKeyMissing
from onward.job.envelope import UNSIGNED, Envelope, Letter, Sealed, open_sealed, parted
from onward.job.secret_places import places_in
from onward.job.secrets import MASK, masked
from onward.job.states import State
from onward.operate.acts import Acts
from onward.operate.why.reason import moment
from onward.security.keys import Keys

__all__ = ["EDITED_FROM", "Change", "Edit", "Editor"]

EDITED_FROM = "onward.edited_from"  # in the meta of the new job: the id of the old one
_PROGRAM = "program"  # who acts, if no person is named
_replace = msgspec.structs.replace


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One argument before and after an edit.  Secrets are masked; ``None`` may also stand for no value."""

    name: str
    before: Any = None
    after: Any = None
    was_given: bool = True
    is_given: bool = True


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """An edit of a dead job."""

    id: str  # of the new job
    edited_from: str
    changes: tuple[Change, ...]
    checked: bool  # whether the arguments were compared with the job's signature, which is known here
    doubt: str = ""  # of arguments that were not: which of them the job did not have before
    enqueued: bool = False  # False: it was asked for the difference only, or another job holds the unique key
    repeated: bool = False  # it was enqueued before, and not again
    held_by: str | None = None  # the live job that holds the unique key


class Editor:
    """Edits dead jobs of one application."""

    def __init__(
        self, inspection: Inspection, client: Client, keys: Keys, *, acts: Acts, records: Records, clock: Clock
    ) -> None:
        self._inspection = inspection
        self._letters = client.letters
        self._keys = keys
        self._acts = acts
        self._records = records
        self._clock = clock

    def edit(
        self,
        job_id: str,
        *,
        set: Mapping[str, Any] | None = None,  # noqa: A002  the word of the command
        unset: Sequence[str] = (),
        payload: Any = msgspec.UNSET,
        dry_run: bool = False,
        by: str | None = None,
        reason: str = "",
    ) -> Edit:
        """Enqueue a dead job with other arguments."""
        stored = self._dead(job_id)
        letter = self._opened(stored)
        given = _edited(letter, dict(set or {}), [unset] if isinstance(unset, str) else list(unset), payload)
        encoded = self._letters.encode(letter.job, given)
        changes = self._changes(letter, encoded)
        if not changes:
            raise ArgumentError(
                f"job {stored.id} has these very arguments: replay it with `onward dead replay {stored.id}`"
            )
        new_id = self._new_id(stored, encoded)
        is_known = self._letters.registry.find(letter.job) is not None
        edit = Edit(
            id=new_id,
            edited_from=stored.id,
            changes=changes,
            checked=is_known,
            doubt="" if is_known else _doubt(letter, changes),
        )
        envelope = self._sealed(letter, new_id, encoded, places_in(given))
        if dry_run:
            return edit
        if self._was_made(stored.id, new_id):
            return _replace(edit, enqueued=True, repeated=True)
        answer = self._acts.enqueue_edited(envelope, stored.id, by=by or _PROGRAM, reason=reason)
        held_by = answer.existing_id if answer.existing_id != new_id else None
        return _replace(edit, enqueued=held_by is None, held_by=held_by)

    def _dead(self, job_id: str) -> StoredJob:
        stored = self._inspection.get(job_id)
        if stored is None:
            raise JobNotFound(f"there is no job {job_id!r:.40}: `onward dead list` lists those that are dead")
        if stored.state is not State.DISCARDED:
            raise OptionError(f"job {stored.id} is {stored.state}, and only dead jobs are edited")
        if stored.tombstone:
            raise OptionError(f"only a tombstone is left of job {stored.id}: enqueue it anew")
        return stored

    def _was_made(self, old_id: str, new_id: str) -> bool:
        """Return whether the audit trail of the old job names the new one: that may have ended and be removed."""
        if not self._acts.keeps_audit:
            return False
        query = AuditQuery(job_id=old_id, ref=new_id, act="edit", limit=1)
        return bool(self._inspection.look(Look(audit=query)).audit)

    def _opened(self, stored: StoredJob) -> Letter:
        """Return the letter in the clear, verified where that is required.  Raises if this process could not sign it."""
        signing = self._keys.signing
        self._keys.look()
        signing.refuse_without_key()
        sealed = Sealed(stored.id, stored.queue, stored.data)
        key_id = parted(sealed.data)[0]
        if key_id != UNSIGNED and signing.sign is None:
            raise SigningKeyMissing(
                f"job {stored.id} is signed with key {key_id[:64].decode('latin-1')!r}, and this process has no key to sign "
                f"with: set ONWARD_SIGNING_KEYS, ONWARD_SIGNING_KEYS_FILE or Onward(signing_keys=...)"
            )
        letter = self._keys.encryption.open(open_sealed(sealed, verify=signing.verify if signing.required else None))
        self._refuse_what_others_made(stored, letter)
        return letter

    def _refuse_what_others_made(self, stored: StoredJob, letter: Letter) -> None:
        """Raise for a job whose arguments belong to a flow or a schedule, or that may not run any more."""
        if letter.flow is not None:
            raise OptionError(
                f"job {stored.id} is a member of flow {letter.flow}, whose other members count on it: replay it as it is, "
                f"or start the flow anew"
            )
        if letter.schedule is not None:
            name = letter.schedule.name
            raise OptionError(
                f"job {stored.id} is a tick of schedule {name!r}, which says its arguments: change the schedule, then "
                f"`onward schedule run {name}`"
            )
        if letter.expires_at is not None and letter.expires_at <= self._clock.micros():
            raise OptionError(f"job {stored.id} expired at {moment(letter.expires_at)}: enqueue it anew")

    def _sealed(self, letter: Letter, new_id: str, payload: bytes, secrets: Sequence[str]) -> Envelope:
        lane, cost = self._lane(letter, payload)
        edited = _replace(
            letter,
            payload=msgspec.Raw(payload),
            meta={**letter.meta, EDITED_FROM: letter.id},
            secrets=tuple(dict.fromkeys((*self._records.secrets(letter), *secrets))),
            unique_key=self._unique_key(letter, payload),
            lane=lane,
            cost=cost,
        )
        envelope = self._letters.seal_again(edited, job_id=new_id, private=letter.enc is not None)
        # It takes no key from a live job: as with a replay, that one is newer.
        return _replace(envelope, unique_strategy="ignore_new")

    def _new_id(self, stored: StoredJob, payload: bytes) -> str:
        """Derive the id from a digest of the arguments, which is keyed where encryption is on."""
        ordered = msgspec.json.encode(msgspec.json.decode(payload), order="sorted")
        digest = self._keys.encryption.key("edited", stored.id, hashlib.sha256(ordered).hexdigest()) or ""
        return edited_id(stored.id, stored.delivery, digest.encode(), stored.finished_at or stored.enqueued_at)

    def _lane(self, letter: Letter, payload: bytes) -> tuple[str | None, int | None]:
        """Return the lane of the new arguments, where the old ones said it."""
        of_call, name = self._letters.lanes.of_call, letter.name or letter.job
        try:
            by_arguments = of_call(name, bytes(letter.payload), letter.meta, None) == (letter.lane, letter.cost)
        except (OnwardError, ValueError, TypeError):  # the old arguments fit no more
            by_arguments = True
        return of_call(name, payload, letter.meta, None) if by_arguments else (letter.lane, letter.cost)

    def _unique_key(self, letter: Letter, payload: bytes) -> str | None:
        """Return the unique key of the new arguments, where the old ones said it."""
        entry = self._letters.registry.find(letter.name or letter.job)
        key_of = None if entry is None else entry.unique_key
        if key_of is None or letter.unique_key is None:
            return letter.unique_key

        def travelling(arguments: bytes) -> str | None:
            return self._keys.encryption.key("unique", letter.key_owner, key_of(arguments))

        try:
            by_arguments = travelling(bytes(letter.payload)) == letter.unique_key
        except (OnwardError, ValueError, TypeError):
            by_arguments = True
        return travelling(payload) if by_arguments else letter.unique_key

    def _changes(self, letter: Letter, payload: bytes) -> tuple[Change, ...]:
        """Return what differs, masked; all of it where this process does not know which arguments are secret."""
        old, new = payload_of(letter), msgspec.json.decode(payload)
        secrets, known = self._records.secrets(letter), self._letters.registry.find(letter.job) is not None
        if not isinstance(old, dict) or not isinstance(new, dict):
            shown = [masked(each, secrets) if known else MASK for each in (old, new)]
            return () if old == new else (Change(name="payload", before=shown[0], after=shown[1]),)
        before, after = masked(old, secrets), masked(new, secrets)
        names = [name for name in {**old, **new} if name not in old or name not in new or old[name] != new[name]]
        return tuple(
            Change(
                name=name,
                before=None if name not in old else before[name] if known else MASK,
                after=None if name not in new else after[name] if known else MASK,
                was_given=name in old,
                is_given=name in new,
            )
            for name in names
        )


def _doubt(letter: Letter, changes: Sequence[Change]) -> str:
    """Return which arguments are new to a job whose signature is not known here: a name may be misspelt."""
    new = [repr(change.name) for change in changes if not change.was_given]
    if not new:  # of arguments without names, too
        return ""
    return f"the job was enqueued with {', '.join(payload_of(letter)) or 'no argument'}, and without {', '.join(new)}"


def _edited(letter: Letter, changed: dict[str, Any], removed: list[str], payload: Any) -> Any:
    """Return the arguments of the new job."""
    if payload is not msgspec.UNSET:
        if changed or removed:
            raise OptionError("payload gives all arguments: leave out set and unset")
        return payload
    if not changed and not removed:
        raise OptionError("nothing is edited: give set, unset or payload")
    old = payload_of(letter)
    if not isinstance(old, dict):
        raise OptionError(f"the arguments of {letter.job!r} have no names: give all of them as the payload")
    if both := changed.keys() & removed:
        raise OptionError(f"{min(both)!r} is both set and unset: leave one out")
    if missing := [name for name in removed if name not in old]:
        raise ArgumentError(f"the job has no argument {missing[0]!r:.60} to unset: it has {', '.join(old) or 'none'}")
    return {**{name: value for name, value in old.items() if name not in removed}, **changed}
