"""Take away from this interpreter what Python does not have on another system, and let it say that it runs there.

    python tests/platforms/pretending.py win32 program.py

The standard library is imported first: it has chosen its own ways for this system by then.  What Onward imports and looks up
afterwards is missing as it would be there.  The stand-in shows that Onward needs none of it;
only the system can show the rest.
"""

import importlib.abc
import os
import runpy
import select
import signal
import socket
import sys
import time
from types import SimpleNamespace

# The standard library looks at the system while it is imported.
import asyncio  # noqa: F401, isort: skip
import concurrent.futures  # noqa: F401, isort: skip
import ctypes  # noqa: F401, isort: skip
import http.client  # noqa: F401, isort: skip
import logging.handlers  # noqa: F401, isort: skip
import mmap

import multiprocessing  # noqa: F401, isort: skip
import selectors
import shutil

import sqlite3  # noqa: F401, isort: skip
import ssl  # noqa: F401, isort: skip
import subprocess  # noqa: F401, isort: skip
import tempfile  # noqa: F401, isort: skip
import uuid  # noqa: F401, isort: skip

MODULES = {
    "win32": {
        *("resource", "fcntl", "termios", "pwd", "grp", "pty", "tty", "syslog", "curses", "readline", "spwd", "nis"),
    },
    "darwin": {"spwd", "ossaudiodev"},
}

_LINUX = {
    os: "epoll memfd_create pidfd_open sched_getaffinity sched_setaffinity pipe2 posix_fadvise copy_file_range getrandom "
    "waitid P_PID P_PGID P_ALL P_PIDFD WNOWAIT WEXITED O_TMPFILE O_PATH eventfd getresuid setresuid",
    select: "epoll",
    signal: "sigtimedwait sigwaitinfo SIGRTMIN SIGRTMAX SIGPOLL SIGPWR SIGSTKFLT",
    socket: "SO_PEERCRED SCM_CREDENTIALS SOCK_CLOEXEC SOCK_NONBLOCK MSG_NOSIGNAL SO_DOMAIN TCP_USER_TIMEOUT",
    selectors: "EpollSelector",
    time: "CLOCK_BOOTTIME CLOCK_TAI",
    mmap: "MAP_POPULATE",
}
_POSIX = {
    os: "fork forkpty register_at_fork getuid geteuid getgid getegid getgroups setuid setgid seteuid setegid initgroups "
    "setsid getsid getpgid setpgid getpgrp killpg mkfifo mknod chown fchown lchown fchmod chroot "
    "wait wait3 wait4 waitid WNOHANG WUNTRACED nice getpriority setpriority getloadavg uname sysconf "
    "pread pwrite readv writev "
    "O_CLOEXEC O_NONBLOCK O_NOFOLLOW O_DIRECTORY O_SYNC O_DSYNC O_NOCTTY statvfs fstatvfs lockf sync fdatasync "
    "WIFSIGNALED WTERMSIG WIFEXITED WEXITSTATUS",
    select: "poll epoll kqueue",
    signal: "SIGKILL SIGHUP SIGQUIT SIGUSR1 SIGUSR2 SIGALRM SIGCHLD SIGPIPE SIGSTOP SIGTSTP SIGCONT SIGTTIN SIGTTOU "
    "SIGXCPU SIGXFSZ SIGWINCH SIGBUS SIGSYS SIGTRAP SIGURG SIGIO pthread_kill pthread_sigmask setitimer getitimer alarm "
    "pause sigwait sigpending siginterrupt",
    socket: "AF_UNIX",
    selectors: "PollSelector EpollSelector",
    time: "clock_gettime clock_settime CLOCK_MONOTONIC CLOCK_REALTIME CLOCK_BOOTTIME pthread_getcpuclockid",
    mmap: "MAP_SHARED MAP_PRIVATE MAP_ANONYMOUS MAP_ANON PROT_READ PROT_WRITE",
}
NAMES = {"win32": (_LINUX, _POSIX), "darwin": (_LINUX,)}


class _Missing(importlib.abc.MetaPathFinder):
    def __init__(self, names):
        self._names = names

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self._names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def pretend(system):
    """Make this interpreter one on ``system``, as far as what it lacks goes."""
    for name in MODULES[system]:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Missing(MODULES[system]))
    _keep_what_the_standard_library_does()
    for table in NAMES[system]:
        for module, names in table.items():
            for name in names.split():
                if hasattr(module, name):
                    delattr(module, name)
    sys.platform = system


def _keep_what_the_standard_library_does():
    """Let the library do in this system's way what it can do on each: pairs of sockets, the space on a disk."""
    pair, family = socket.socketpair, socket.AF_UNIX
    socket.socketpair = lambda *how: pair(*(how or (family,)))
    space = os.statvfs
    shutil.disk_usage = lambda path: SimpleNamespace(free=space(path).f_bavail * space(path).f_frsize)


if __name__ == "__main__":
    pretend(sys.argv[1])
    runpy.run_path(sys.argv[2], run_name="__main__")
