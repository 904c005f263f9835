"""The Python stack of a running job, for a process of the same user on the same machine.

A worker process listens on a socket of its own (`onward.worker.diagnostics.private_socket`) and answers from a thread
of its own.  A handler that holds the interpreter's lock keeps that thread from answering; then only a tool that
reads the process from outside helps.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Self

import msgspec

from onward.base.ipc import IpcChannel, IpcMessage
from onward.base.logs import get_logger
from onward.worker.diagnostics import private_socket
from onward.worker.diagnostics.frames import Frame, InProcess, Whereabouts, stack_of

__all__ = ["ANSWER_WITHIN", "NoStack", "Silence", "Stack", "Stacks", "ask"]

logger = get_logger("onward.worker")

ANSWER_WITHIN = 2.0  # seconds to wait for an answer
_QUESTION_WITHIN = 1.0


class StackRequest(IpcMessage, frozen=True):
    """Asks where a job runs."""

    job_id: str


class Stack(IpcMessage, frozen=True):
    """Answers with the frames at which the job runs."""

    pid: int
    where: str
    frames: list[Frame]


class RunsInProcess(IpcMessage, frozen=True):
    """Answers that the job runs in another process: ask that one."""

    pid: int


class NotRunningHere(IpcMessage, frozen=True):
    """Answers that the job does not run here, or not any more."""


class OtherUser(IpcMessage, frozen=True):
    """Answers that the request came from another user."""


_request_decoder: msgspec.msgpack.Decoder[IpcMessage] = msgspec.msgpack.Decoder(StackRequest)
_answer_decoder: msgspec.msgpack.Decoder[IpcMessage] = msgspec.msgpack.Decoder(
    Stack | RunsInProcess | NotRunningHere | OtherUser
)


class Stacks:
    """``with Stacks(whereabouts): ...`` answers for this process.  ``whereabouts`` says where a job runs, or None."""

    def __init__(
        self, whereabouts: Callable[[str], Whereabouts | None], *, in_files: bool = private_socket.IN_FILES
    ) -> None:
        self._whereabouts = whereabouts
        self._in_files = in_files
        self._listener: socket.socket | None = None
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        """Listen for requests.  A process that cannot listen goes on without it: no job depends on it."""
        try:
            self._listener = private_socket.listen(in_files=self._in_files)
        except OSError as error:
            logger.warning("this process cannot be asked for the stacks of its jobs: %s", error)
        else:
            threading.Thread(target=self._serve, args=(self._listener,), name="onward-stacks", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._listener is not None:
            private_socket.close(self._listener)

    def _serve(self, listener: socket.socket) -> None:
        while not self._ended.is_set():
            try:
                peer, _ = listener.accept()
            except OSError:  # the socket was closed; or the process has too many open files, and may have fewer later
                self._ended.wait(_QUESTION_WITHIN)
                continue
            with peer:
                try:
                    self._receive(peer)
                except Exception:
                    logger.exception("a request for the stack of a job could not be answered")

    def _receive(self, peer: socket.socket) -> None:
        peer.settimeout(_QUESTION_WITHIN)
        channel = IpcChannel(peer, _request_decoder)
        if not private_socket.may_talk(peer):
            channel.send(OtherUser())
            return
        question = next(channel.messages(), None)
        if isinstance(question, StackRequest):
            channel.send(self._answer(question.job_id))

    def _answer(self, job_id: str) -> IpcMessage:
        place = self._whereabouts(job_id)
        if place is None:
            return NotRunningHere()
        if isinstance(place, InProcess):
            return RunsInProcess(place.pid)
        where, frames = stack_of(place)
        if self._whereabouts(job_id) != place:  # the job ended meanwhile, and these may be another job's frames
            return NotRunningHere()
        return Stack(os.getpid(), where, frames)


class Silence(StrEnum):
    """Why there is no stack."""

    NOT_LISTENING = "it does not listen"
    NO_ANSWER = "it does not answer"
    OTHER_USER = "it belongs to another user"
    NOT_THERE = "the job does not run there"


class NoStack(Exception):
    def __init__(self, silence: Silence, pid: int) -> None:
        super().__init__(f"process {pid}: {silence}")
        self.silence = silence
        self.pid = pid  # of the process that was asked last


def ask(pid: int, job_id: str, *, timeout: float = ANSWER_WITHIN, in_files: bool = private_socket.IN_FILES) -> Stack:
    """Ask a worker process for the stack of a job.  Raises `NoStack`."""
    deadline = time.monotonic() + timeout
    while True:
        match _answer_of(pid, job_id, deadline, in_files=in_files):
            case Stack() as stack:
                return stack
            case RunsInProcess(pid=other):
                pid = other
            case OtherUser():
                raise NoStack(Silence.OTHER_USER, pid)
            case None:
                raise NoStack(Silence.NO_ANSWER, pid)
            case _:
                raise NoStack(Silence.NOT_THERE, pid)


def _answer_of(pid: int, job_id: str, deadline: float, *, in_files: bool) -> IpcMessage | None:
    with socket.socket(socket.AF_UNIX) as end:
        end.settimeout(max(0.01, deadline - time.monotonic()))
        try:
            private_socket.connect(end, pid, in_files=in_files)
        except ConnectionRefusedError:
            raise NoStack(Silence.NOT_LISTENING, pid) from None
        except PermissionError:
            raise NoStack(Silence.OTHER_USER, pid) from None
        except OSError:  # so many processes have asked that it accepts no more
            return None
        channel = IpcChannel(end, _answer_decoder)
        channel.send(StackRequest(job_id))
        return next(channel.messages(), None)
