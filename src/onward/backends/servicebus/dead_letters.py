"""The dead-letter sub-queue of a queue: its messages can be received in their order only, never one by its id.

So a process that needs some of them receives all before them, too, and gives the others back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from onward.backend import Query, Run, StoredJob
from onward.backends.broker.header import NotOurs, revived
from onward.backends.servicebus.links import Receiver, Sender
from onward.backends.servicebus.message import MessageHeader, compose, read
from onward.backends.servicebus.received import DeadLetterDescription
from onward.base.clock import to_micros
from onward.base.logs import get_logger
from onward.contract.deaths import fingerprint_of
from onward.job.states import State

__all__ = ["DeadLetterQueue", "page_of"]

logger = get_logger("onward.servicebus")

_PAGE = 100
_decode = msgspec.json.Decoder(DeadLetterDescription).decode


class DeadMessage(NamedTuple):
    """One dead job."""

    number: int
    header: MessageHeader
    data: bytes
    job: StoredJob


class DeadLetterQueue:
    """The dead jobs of one queue."""

    def __init__(self, queue: str, receiver: Receiver, sender: Sender, patience: float) -> None:
        self._queue = queue
        self._receiver = receiver
        self._sender = sender
        self._patience = patience

    def letters(self, query: Query) -> Iterator[DeadMessage]:
        """Yield the dead messages that a query means, in the order of their numbers."""
        first = 1
        while page := self._receiver.peek(first, _PAGE):
            for message in page:
                letter = self._letter(message)
                if letter is not None and _is_meant(letter.job, query):
                    yield letter
            first = int(page[-1].sequence_number) + 1

    def replay(self, query: Query) -> list[str]:
        """Store a copy with new counters, then remove the dead one: a process that dies in between leaves both."""

        def revive(message: Any, letter: DeadMessage) -> None:
            header = msgspec.structs.replace(
                revived(letter.header),
                delivery=letter.job.delivery + (message.delivery_count or 0),
                rounds=letter.header.rounds + 1,
            )
            self._sender.send([compose(header, letter.data)])
            self._receiver.complete(message)

        return self._visit(query, revive)

    def purge(self, query: Query) -> int:
        return len(self._visit(query, lambda message, _: self._receiver.complete(message)))

    def _visit(self, query: Query, act: Callable[[Any, DeadMessage], object]) -> list[str]:
        wanted = {letter.number for letter in self.letters(query)}
        seen: list[str] = []
        others: list[Any] = []
        try:
            while wanted:
                came = self._receiver.receive(min(len(wanted), _PAGE), self._patience)
                for message in came:
                    letter = self._letter(message)
                    if letter is None or letter.number not in wanted:
                        others.append(message)
                        continue
                    act(message, letter)
                    wanted.discard(letter.number)
                    seen.append(letter.job.id)
                if not came:  # other processes have them
                    break
        finally:
            self._receiver.withdraw()
            for message in others:
                self._receiver.abandon(message)
        return seen

    def _letter(self, message: Any) -> DeadMessage | None:
        try:
            header, data = read(message)
        except NotOurs as error:
            logger.warning("dead letter %s of queue %s is left out: %s", message.sequence_number, self._queue, error)
            return None
        return DeadMessage(int(message.sequence_number), header, data, _stored(self._queue, message, header, data))


def _stored(queue: str, message: Any, header: MessageHeader, data: bytes) -> StoredJob:
    description = _description(message, header)
    reason, token = message.dead_letter_reason, header.delivery + 1
    if description.failure is None and description.ended_at == 0:  # the server dead-lettered it, with its own reason
        reason = f"{reason}: {message.dead_letter_error_description}"
    runs: tuple[Run, ...] = ()
    if description.failure is not None:
        runs = (
            Run(
                token=token,
                attempt=description.attempts,
                move="abandon",
                to=State.DISCARDED,
                failure=description.failure,
                at=description.ended_at,
                duration_ms=0,
            ),
        )
    return StoredJob(
        id=header.id,
        queue=queue,
        job=header.job,
        data=data,
        state=State.DISCARDED,
        priority=0,
        attempts=description.attempts,
        delivery=token,
        crashes=description.crashes,
        interruptions=description.interruptions,
        available_at=to_micros(message.enqueued_time_utc),
        enqueued_at=header.enqueued_at,
        finished_at=description.ended_at or None,
        reason=reason,
        runs=runs,
    )


def _description(message: Any, header: MessageHeader) -> DeadLetterDescription:
    try:
        return _decode(message.dead_letter_error_description or "")
    except (msgspec.DecodeError, TypeError):
        return DeadLetterDescription(header.attempts, header.crashes, header.interruptions, 0)


def _is_meant(job: StoredJob, query: Query) -> bool:
    return (
        (query.ids is None or job.id in query.ids)
        and (query.job is None or job.job == query.job)
        and (query.fingerprint is None or fingerprint_of(job.runs) == query.fingerprint)
        and (query.until is None or job.id <= query.until)
    )


def page_of(jobs: Sequence[StoredJob], query: Query) -> list[StoredJob]:
    """Return the page of a query: jobs in the order of ids, within its limits."""
    ordered = sorted(jobs, key=lambda job: job.id, reverse=query.newest_first)
    if query.after is not None:
        after = query.after
        ordered = [job for job in ordered if (job.id < after if query.newest_first else job.id > after)]
    return ordered[: query.limit]
