"""A private PgBouncer in front of a server, in transaction mode: every transaction may be in another session."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from tests.servers.programs import UNPRIVILEGED, apt_install, lent_user, unavailable

PATIENCE = 30

_SETTINGS = """
[databases]
* = host={server} user=onward

[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = 5
max_client_conn = 200
logfile = {folder}/log
pidfile = {folder}/pid
"""


@contextlib.contextmanager
def pgbouncer(server, **settings):
    """The URL of the pooler."""
    program = _program()
    if program is None:
        unavailable("pgbouncer, neither installed nor through apt-get")
    with tempfile.TemporaryDirectory(prefix="pgb-") as name:
        folder = Path(name)
        lines = [f"{name} = {value}\n" for name, value in settings.items()]
        (folder / "settings.ini").write_text(_SETTINGS.format(server=server.folder, folder=folder) + "".join(lines))
        if os.geteuid() == 0:
            shutil.chown(folder, UNPRIVILEGED)
        process = subprocess.Popen([program, "-q", folder / "settings.ini"], stdin=subprocess.DEVNULL, **lent_user())
        try:
            deadline = time.monotonic() + PATIENCE
            while not _listens(folder / ".s.PGSQL.6432"):
                assert process.poll() is None, "the pooler did not start"
                assert time.monotonic() < deadline, "the pooler does not listen"
                time.sleep(0.02)
            yield f"postgresql://onward@/postgres?host={folder}&port=6432"
        finally:
            process.kill()
            process.wait(PATIENCE)


def _listens(place):
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(place)) == 0


def _program():
    found = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if found is None:
        apt_install("pgbouncer")
        found = shutil.which("pgbouncer", path="/usr/sbin")
    return found
