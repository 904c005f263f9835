"""Which users may read and write a file: a user who can read a key can sign with it; one who can write a setting chooses it.

A file whose rights the user can correct is refused until that is done.  Where the user cannot, Onward warns: the secrets of
a container are on a read-only file system, or belong to root; some file systems have no modes at all.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

__all__ = ["intruder", "key_problem"]

_MOUNTS = Path("/proc/self/mountinfo")
_WITHOUT_MODES = frozenset({"vfat", "msdos", "exfat", "ntfs", "ntfs3", "fuseblk", "9p", "drvfs", "cifs", "smb3"})
_GROUP_READS, _GROUP_WRITES, _OTHERS_READ, _OTHERS_WRITE = 0o040, 0o020, 0o004, 0o002


def intruder(path: Path) -> str | None:
    """Name the users beside this one and root that can write a file or replace it; None if there are none."""
    if sys.platform == "win32":  # rights are not in modes there
        return None
    for each in (path, path.parent):
        status = each.stat()
        if status.st_uid not in (0, os.geteuid()):
            return f"{each} belongs to user {status.st_uid}, who is neither root nor you"
        if status.st_mode & _OTHERS_WRITE and not (each is not path and status.st_mode & stat.S_ISVTX):
            return f"every user may write to {each}"
    return None


def key_problem(path: Path) -> tuple[str, bool] | None:
    """Return the problem with the rights on a key file, with the fix; and whether the file is refused until then."""
    if sys.platform == "win32":
        return None
    status = path.stat()
    mode, user = status.st_mode, os.geteuid()
    if not stat.S_ISREG(mode):  # a pipe from another program: it is read once
        return None
    fixed = _is_fixed(path, status.st_dev)
    ours = status.st_uid == user
    if mode & _OTHERS_WRITE:
        return f"every user may write it: chmod 600 {path}", not fixed
    if mode & (_OTHERS_READ | _GROUP_WRITES):
        who = "every user may read it" if mode & _OTHERS_READ else "its group may write it"
        return f"{who}: chmod 600 {path}", ours and not fixed
    if mode & _GROUP_READS and (ours or status.st_gid not in _our_groups()):  # the group may exist to share the key
        return f"its group may read it: chmod 600 {path}, unless that is meant", False
    if status.st_uid not in (0, user):
        return f"it belongs to user {status.st_uid}, who is neither root nor you: chown {user} {path}", False
    return None


def _our_groups() -> set[int]:
    return {os.getegid(), *os.getgroups()}


def _is_fixed(path: Path, device: int) -> bool:
    """Return whether modes cannot be changed there: the file system is read-only, or has none."""
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY) or _file_system(device) in _WITHOUT_MODES


def _file_system(device: int) -> str | None:
    """Return the type of a file system, by the number of its device."""
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None  # not Linux, or no /proc: the type is unknown
    number = f"{os.major(device)}:{os.minor(device)}"
    return next(
        (line.partition(" - ")[2].split(" ")[0] for line in mounts.splitlines() if number in line.split(" ")[2:3]), None
    )
