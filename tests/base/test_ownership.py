"""Key files that others may touch are refused where that can be put right; settings that others may write do not count."""

import os

import pytest

from onward.base import ownership
from onward.config import load
from onward.errors import OptionError
from onward.security.key_ring import Key, KeyRing

ANOTHER = 4_242


@pytest.fixture
def give_away(monkeypatch):
    """Let a file belong to another user.  Only root can do that; for everybody else it is this process that is another's."""

    def give_away(path, group=-1):
        if os.geteuid() == 0:
            os.chown(path, ANOTHER, group)
        else:
            owner = path.stat().st_uid
            monkeypatch.setattr(ownership.os, "geteuid", lambda: owner + 1)

    return give_away


@pytest.fixture
def keys(tmp_path):
    path = tmp_path / "keys.json"
    path.write_bytes(KeyRing([Key.new("k1")]).to_file())
    path.chmod(0o600)
    return path


def refusal(path):
    """Why it is not read."""
    try:
        KeyRing.read(path)
    except OptionError as error:
        return str(error)
    return "it is read"


class TestKeys:
    @pytest.mark.parametrize("mode", [0o600, 0o400])
    def test_a_file_of_its_users_alone_is_read(self, keys, mode, caplog):
        keys.chmod(mode)

        assert KeyRing.read(keys).keys
        assert not caplog.records

    @pytest.mark.parametrize(
        ("mode", "who"),
        [
            (0o620, "its group may write it"),
            (0o644, "every user may read it"),
            (0o664, "every user may read it"),
            (0o602, "every user may write it"),
        ],
    )
    def test_one_that_others_may_touch_is_refused_with_the_fix(self, keys, mode, who):
        keys.chmod(mode)

        assert refusal(keys).endswith(f"other users have access to the key file {keys}: {who}: chmod 600 {keys}")

    def test_one_that_its_group_may_read_is_told_once_and_read(self, keys, caplog):
        keys.chmod(0o640)

        for _ in range(3):
            assert KeyRing.read(keys).keys

        (record,) = caplog.records
        assert record.getMessage().endswith(f"its group may read it: chmod 600 {keys}, unless that is meant")

    def test_what_is_lent_to_a_group_of_ours_is_read(self, keys, give_away, monkeypatch, caplog):
        keys.chmod(0o640)
        give_away(keys, os.getegid())
        monkeypatch.setattr(ownership, "_our_groups", lambda: {keys.stat().st_gid})

        assert KeyRing.read(keys).keys
        assert [record.getMessage().split(": ", 1)[1] for record in caplog.records] in ([], [_foreign(keys)])

    def test_another_users_is_told_once_and_read(self, keys, give_away, caplog):
        give_away(keys)

        for _ in range(3):
            assert KeyRing.read(keys).keys

        (record,) = caplog.records
        assert record.getMessage().endswith(_foreign(keys))

    @pytest.mark.parametrize("what", ["a file system that cannot be written", "one without modes"])
    def test_where_it_cannot_be_helped_there_is_a_warning(self, keys, what, monkeypatch, caplog):
        keys.chmod(0o644)
        if what == "one without modes":
            monkeypatch.setattr(ownership, "_file_system", lambda device: "vfat")
        else:
            real = os.statvfs
            monkeypatch.setattr(ownership.os, "statvfs", lambda path: _ReadOnly(real(path)))

        assert KeyRing.read(keys).keys
        (record,) = caplog.records
        assert record.getMessage().endswith(f"every user may read it: chmod 600 {keys}")

    def test_another_users_that_everybody_may_write_is_refused(self, keys, give_away):
        keys.chmod(0o666)
        give_away(keys)

        assert "every user may write it" in refusal(keys)

    def test_a_file_system_is_found_by_its_number(self, tmp_path):
        assert ownership._file_system(tmp_path.stat().st_dev) not in ("", "vfat")
        assert ownership._file_system(os.makedev(999, 999)) is None


class _ReadOnly:
    def __init__(self, status):
        self.f_flag = status.f_flag | os.ST_RDONLY


def _foreign(path):
    owner = path.stat().st_uid
    return f"it belongs to user {owner}, who is neither root nor you: chown {ownership.os.geteuid()} {path}"


class TestSettings:
    @pytest.fixture
    def folder(self, tmp_path, monkeypatch):
        """Below the folder of a file, and below a home that ends the way up."""
        monkeypatch.setenv("HOME", str(tmp_path))
        below = tmp_path / "project" / "src"
        below.mkdir(parents=True)
        return below

    @pytest.mark.parametrize("name", ["onward.toml", "pyproject.toml"])
    @pytest.mark.parametrize("whose", ["the file's owner", "the folder's owner", "everybody"])
    def test_a_file_that_others_decide_about_is_passed_over(self, folder, name, whose, give_away, caplog):
        file = folder.parent / name
        table = "[tool.onward]\n" if name == "pyproject.toml" else ""
        file.write_text(f'{table}namespace = "theirs"')
        (folder.parent.parent / "onward.toml").write_text('namespace = "ours"')
        assert load({}, environ={}, start=folder).namespace == "theirs"

        match whose:
            case "everybody":
                file.chmod(0o666)
            case "the file's owner":
                give_away(file)
            case _:
                give_away(folder.parent)

        if os.geteuid() == 0 or whose == "everybody":  # else nothing is ours any more
            assert load({}, environ={}, start=folder).namespace == "ours"
        assert str(file) in caplog.text
        assert "is ignored as a configuration file" in caplog.text

    def test_it_is_told_once(self, folder, caplog):
        (folder / "onward.toml").write_text("")
        (folder / "onward.toml").chmod(0o666)

        for _ in range(3):
            load({}, environ={}, start=folder)

        assert len(caplog.records) == 1

    def test_nothing_above_the_home_folder_counts(self, folder, monkeypatch):
        monkeypatch.setenv("HOME", str(folder.parent))
        (folder.parent.parent / "onward.toml").write_text('namespace = "above"')

        assert load({}, environ={}, start=folder).namespace == "default"
        (folder.parent / "onward.toml").write_text('namespace = "at_home"')
        assert load({}, environ={}, start=folder).namespace == "at_home"

    def test_nothing_beyond_a_mount_point_counts(self, folder, monkeypatch):
        (folder.parent.parent / "onward.toml").write_text('namespace = "beyond"')
        assert load({}, environ={}, start=folder).namespace == "beyond"
        real = type(folder).stat

        def stat(path, **options):
            status = real(path, **options)
            if not path.is_relative_to(folder.parent):
                return os.stat_result([*status[:2], status.st_dev + 1, *status[3:10]])
            return status

        monkeypatch.setattr(type(folder), "stat", stat)

        assert load({}, environ={}, start=folder).namespace == "default"

    def test_a_folder_that_everybody_may_write_to_but_not_change_is_fine(self, folder):
        """As /tmp is: no user can replace the file of another there."""
        (folder / "onward.toml").write_text('namespace = "ours"')
        folder.chmod(0o1777)
        assert load({}, environ={}, start=folder).namespace == "ours"

        folder.chmod(0o777)
        assert load({}, environ={}, start=folder).namespace == "default"
