"""The file itself: its permissions, and whether SQLite's locks work on its file system."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from pathlib import Path

from onward.errors import BackendMisconfigured, StoreFull

__all__ = ["check_local", "create", "file_system_of"]

_PRIVATE = 0o600
_MOUNTS = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")
# Locks there are missing, advisory or local to one machine, and the log's shared memory is not shared.
_NETWORK = frozenset(
    {
        "9p",
        "afp",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "davfs",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
    }
    | {"ocfs2", "orangefs", "smb3", "smbfs"}
    | {"fuse.ceph", "fuse.davfs", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"}
)


def create(path: Path) -> None:
    """Create the file if it does not exist, readable by its owner only; its log and index files inherit that.

    An existing file is not opened: closing it again would drop the locks that this process's connections hold on it.
    """
    try:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _PRIVATE))
    except FileNotFoundError:
        raise BackendMisconfigured(f"{path}: the folder {path.parent} does not exist: create it") from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(f"{path}: cannot be created: {error.strerror}") from error
        raise BackendMisconfigured(f"{path}: cannot be created: {error.strerror}; use another folder") from error


def check_local(path: Path) -> None:
    """Raise for a network file system: SQLite's locks do not work there, and two writers destroy the file."""
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return  # not Linux, or no /proc: nothing can be known
    kind = file_system_of(path.resolve(), mounts)
    if kind in _NETWORK:
        raise BackendMisconfigured(
            f"{path}: this is on a network file system ({kind}): SQLite's locks do not work there, and a second "
            f"writer destroys the file: use a local disk, or a database server"
        )


def file_system_of(path: Path, mountinfo: str) -> str | None:
    r"""Return the type of the file system that holds ``path``, by the text of /proc/self/mountinfo.

    >>> table = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n40 22 0:41 / /srv/my\\040share rw - nfs4 host:/x rw\n"
    >>> file_system_of(Path("/srv/my share/jobs.db"), table), file_system_of(Path("/srv/jobs.db"), table)
    ('nfs4', 'ext4')
    """
    deepest, kind = -1, None
    for line in mountinfo.splitlines():
        place, separator, source = line.partition(" - ")
        fields = place.split(" ")
        if not separator or len(fields) < 5:
            continue
        mount = Path(_OCTAL.sub(lambda code: chr(int(code[1], 8)), fields[4]))
        # A later line covers an earlier one of the same place.
        if path.is_relative_to(mount) and len(mount.parts) >= deepest:
            deepest, kind = len(mount.parts), source.split(" ")[0]
    return kind
