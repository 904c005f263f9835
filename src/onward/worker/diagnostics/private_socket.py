"""A socket of one process, found by its pid, to which only processes of the same user can connect.

On Linux the socket has no file, and the kernel names the process at the other end.  The socket's name holds the process
namespace too: containers may share a network, and have the same pids in it.  Elsewhere it is a file in a folder of its user.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
from contextlib import suppress
from pathlib import Path

from onward.base.lazy import tempfile

__all__ = ["IN_FILES", "close", "connect", "listen", "may_talk"]

IN_FILES = sys.platform != "linux"
_CREDENTIALS = struct.Struct("iII")  # pid, uid, gid


def listen(*, in_files: bool = IN_FILES) -> socket.socket:
    """Open the socket of this process."""
    address = _address(os.getpid(), in_files=in_files)
    listener = socket.socket(socket.AF_UNIX)
    try:
        if in_files:
            Path(address).unlink(missing_ok=True)  # an earlier process with this pid may have left it
        listener.bind(address)
        if in_files:
            Path(address).chmod(0o600)
        listener.listen()
    except BaseException:
        listener.close()
        raise
    return listener


def close(listener: socket.socket) -> None:
    """Close the socket, and wake the thread that waits for a connection."""
    name = listener.getsockname()
    with suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    if isinstance(name, str) and name:
        Path(name).unlink(missing_ok=True)


def may_talk(peer_socket: socket.socket) -> bool:
    """Return whether the other end runs as the same user, or as root, which may see everything anyway."""
    peer = _peer(peer_socket)
    return peer is None or peer[1] in (0, os.geteuid())


def connect(end: socket.socket, pid: int, *, in_files: bool = IN_FILES) -> None:
    """Connect to the socket of a process.  Raises `ConnectionRefusedError` if it has none, or another process answers."""
    try:
        end.connect(_address(pid, in_files=in_files))
    except FileNotFoundError as error:
        raise ConnectionRefusedError(str(error)) from None
    peer = _peer(end)
    if peer is not None and peer[0] != pid:
        raise ConnectionRefusedError(f"another process, {peer[0]}, listens under the name of process {pid}")


def _address(pid: int, *, in_files: bool) -> str:
    if in_files:
        return str(_own_folder() / f"{pid}.sock")
    return f"\0onward-{_process_namespace()}-{pid}"


def _process_namespace() -> int:
    with suppress(OSError):
        return Path("/proc/self/ns/pid").stat().st_ino
    return 0


def _own_folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"onward-{os.geteuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} must be a folder that only its owner can enter")
    return folder


def _peer(end: socket.socket) -> tuple[int, int, int] | None:
    """Return pid, uid and gid of the process at the other end, where the system tells."""
    if sys.platform != "linux":
        return None
    pid, uid, gid = _CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return pid, uid, gid
