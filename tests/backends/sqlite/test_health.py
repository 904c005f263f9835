"""What a file says of itself."""

import pytest

from onward.backend import Health
from onward.testing.contract.builders import a_lease


@pytest.fixture
def checks(backend):
    return lambda: {check.name: check for check in backend.health()}


def test_it_can_be_asked(backend):
    assert isinstance(backend, Health)


def test_it_says_where_the_file_is(checks, file):
    assert str(file) in checks()["file"].detail
    assert file.is_absolute()


@pytest.mark.promise("F50")
def test_it_names_the_library(checks):
    assert "SQLite 3." in checks()["library"].detail


def test_a_sound_file_is_sound(checks):
    found = checks()

    assert found["integrity"].detail == "quick_check: ok"
    assert found["schema"].detail == "version 1, tables onward_*"
    assert found["durability"].detail == "journal_mode=wal, synchronous=FULL"
    assert "free in" in found["space"].detail
    assert {found[name].status for name in ("file", "integrity", "schema", "durability", "log", "leases")} == {"ok"}


def test_relaxed_durability_is_a_warning(open_backend):
    (check,) = [check for check in open_backend(durability="relaxed").health() if check.name == "durability"]

    assert check.status == "warn"
    assert "a power cut may undo the last moments" in check.detail


def test_a_lease_without_a_live_session_is_a_warning(backend, checks, clock):
    lease = a_lease(backend, lease_for=30)
    clock.advance(40)

    assert checks()["leases"].status == "warn"
    assert "started 40 s ago" in checks()["leases"].detail

    backend.extend(lease.owner)
    assert checks()["leases"].status == "ok"
