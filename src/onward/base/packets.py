"""Messages with open files, between processes of Onward, over sockets that keep messages apart (SOCK_SEQPACKET)."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

import msgspec

from onward.base.failure import storable
from onward.base.ipc import IpcMessage

__all__ = ["receive", "send", "shortened"]

_LONGEST = 1 << 17  # bytes: the text of a problem is cut, to fewer also if each character takes four
_LONGEST_TEXT = 1 << 14  # characters
_MOST_FILES = 2

_encoder = msgspec.msgpack.Encoder()


def send(end: socket.socket, message: IpcMessage, files: Sequence[int] = ()) -> None:
    """Send a message with open files.  Raises `OSError` if the other end is gone."""
    socket.send_fds(end, [_encoder.encode(message)], files)


def receive(end: socket.socket, decoder: msgspec.msgpack.Decoder[IpcMessage]) -> tuple[IpcMessage | None, list[int]]:
    """Wait for a message, and return it with the files that came with it; None: the other end is gone.

    Raises `BlockingIOError` if there is none and the socket does not wait.
    """
    try:
        data, files, _, _ = socket.recv_fds(end, _LONGEST, _MOST_FILES, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
    except BlockingIOError:
        raise
    except OSError:
        return None, []
    if not data:
        for file in files:
            os.close(file)
        return None, []
    return decoder.decode(data), files


def shortened(text: str) -> str:
    """Cut the beginning of a long text, such as a traceback: the end of it says what is wrong."""
    text = storable(text)
    return text if len(text) <= _LONGEST_TEXT else f"... {text[-_LONGEST_TEXT:]}"
