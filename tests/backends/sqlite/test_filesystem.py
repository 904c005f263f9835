"""Network file systems are refused: SQLite's locks do not hold there."""

from pathlib import Path

import pytest

from onward.backends.sqlite import SqliteBackend, filesystem
from onward.errors import BackendMisconfigured

MOUNTS = r"""
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
23 22 0:21 / /proc rw,nosuid - proc proc rw
40 22 0:41 / /home rw,relatime shared:20 - nfs4 nas:/home rw,vers=4.2
41 40 254:2 / /home/local rw,relatime - xfs /dev/vdb rw
42 22 0:44 / /mnt/my\040share rw - cifs //nas/share rw
43 22 0:45 / /mnt/c rw - 9p drvfs rw
44 22 0:46 / /mnt/remote rw - fuse.sshfs me@host: rw
45 22 0:47 / /over rw - ext4 /dev/vdc rw
46 22 0:48 / /over rw - nfs nas:/over rw
"""


@pytest.mark.promise("F51")
@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/jobs.db", "ext4"),
        ("/home/me/jobs.db", "nfs4"),
        ("/home/local/jobs.db", "xfs"),
        ("/homework/jobs.db", "ext4"),
        ("/mnt/my share/jobs.db", "cifs"),
        ("/mnt/c/jobs.db", "9p"),
        ("/mnt/remote/jobs.db", "fuse.sshfs"),
        ("/over/jobs.db", "nfs"),
    ],
)
def test_the_deepest_and_latest_mount_decides(path, kind):
    assert filesystem.file_system_of(Path(path), MOUNTS) == kind


@pytest.mark.promise("F51")
@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs", "lustre", "afs"]
)
def test_a_network_file_system_is_refused_by_name(kind, tmp_path, monkeypatch):
    table = tmp_path / "mountinfo"
    table.write_text(f"22 1 0:1 / / rw - {kind} somewhere rw\n")
    monkeypatch.setattr(filesystem, "_MOUNTS", table)

    with pytest.raises(BackendMisconfigured, match=rf"network file system \({kind}\).* use a local disk"):
        SqliteBackend.open(tmp_path / "jobs.db")
    assert not (tmp_path / "jobs.db").exists()


def test_where_nothing_can_be_known_the_file_is_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(filesystem, "_MOUNTS", tmp_path / "no such table")

    SqliteBackend.open(tmp_path / "jobs.db").close()


@pytest.mark.parametrize("mounts", ["", "garbage\n", "1 2 3 - \n"])
def test_a_table_that_cannot_be_read_says_nothing(mounts):
    assert filesystem.file_system_of(Path("/srv/jobs.db"), mounts) is None
