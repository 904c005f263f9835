"""Key rings: what they are read from, how they change, and that they keep their secrets."""

import copy
import pickle
import traceback
from datetime import UTC, datetime

import pytest

from onward.config import Settings, load
from onward.errors import OptionError
from onward.security.key_ring import Key, KeyRing

pytestmark = pytest.mark.usefixtures("private_files")

ONE, TWO, THREE = "one-" * 10, "two-" * 10, "three" * 10
CANARY = "canary-canary-canary-canary-canary-canary"


def states(ring):
    return list(ring.states.items())


# Where a ring comes from


@pytest.mark.promise("S37")
@pytest.mark.parametrize(
    "source",
    [
        f"k2:{TWO},k1:{ONE},k0:revoked",
        f"  k2:{TWO} ,\n k1:{ONE}\nk0:revoked\n",
        {"k2": TWO, "k1": ONE, "k0": "revoked"},
        KeyRing.parse(f"k2:{TWO},k1:{ONE},k0:revoked"),
    ],
    ids=["text", "text in lines", "mapping", "ring"],
)
def test_the_first_key_signs_and_the_others_verify(source):
    ring = KeyRing.of(source, "signing_keys")

    assert states(ring) == [("k2", "signs"), ("k1", "verifies"), ("k0", "revoked")]
    assert [key.secret for key in ring.keys] == [TWO.encode(), ONE.encode(), b""]
    assert (ring.signing.id, [key.id for key in ring.active]) == ("k2", ["k2", "k1"])


def test_a_file_holds_the_text_or_what_was_written(tmp_path):
    ring = KeyRing.parse(f"k2:{TWO},k1:{ONE},k0:revoked")
    (tmp_path / "text").write_text(f"k2:{TWO}\nk1:{ONE}\nk0:revoked\n")
    (tmp_path / "written").write_bytes(ring.to_file())

    for name in ("text", "written"):
        read = KeyRing.of(tmp_path / name, "signing_keys")
        assert (read, read.path) == (ring, tmp_path / name)


def test_what_is_written_knows_when_each_key_was_made(tmp_path):
    made = datetime(2026, 11, 15, 12, 30, tzinfo=UTC)
    (tmp_path / "keys").write_bytes(KeyRing([Key.new("k1", now=made)]).to_file())

    assert KeyRing.read(tmp_path / "keys").signing.created_at == made


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "names no key that can sign"),
        ("k0:revoked", "names no key that can sign"),
        (CANARY, "entry 1 is not `id:secret`"),
        (f"k1:{ONE},{CANARY}", "entry 2 is not `id:secret`"),
        (f"k1:{CANARY[:20]}", "the secret of k1 is shorter than 32"),
        ("k1:", "the secret of k1 is shorter than 32"),
        (f"k1:{CANARY}:{CANARY}", "no ',' ':' or blank"),
        (f"k1:{CANARY}é", "no ',' ':' or blank"),
        (f"-:{CANARY}", "does not start with a sign"),
        (f"k 1:{CANARY}", "is not `id:secret`"),
        (f"{'k' * 65}:{CANARY}", "at most 64"),
        (f"k1:{ONE},k1:{CANARY}", "k1 is on the ring twice"),
    ],
)
def test_text_that_is_no_ring_is_refused_without_being_quoted(text, complaint):
    with pytest.raises(OptionError, match=complaint) as raised:
        KeyRing.of(text, "ONWARD_SIGNING_KEYS")

    assert CANARY[:12] not in "".join(traceback.format_exception(raised.value, limit=0))


@pytest.mark.parametrize(
    "content",
    [
        b"{}",
        b'{"keys": []}',
        b'{"keys": [{"id": "k1", "state": "canary-canary-canary", "secret": "x"}]}',
        b'{"keys": [{"id": "k1", "state": "signs", "secret": 5}]}',
        b'{"keys": [{"id": "k1", "state": "signs", "secret": "canary-canary-canary"}]}',
        b'{"keys": [{"id": "canary-canary canary", "state": "signs", "secret": "x"}]}',
        b'{"keys": [{"id": "k1", "state": "verifies", "secret": "canary-canary-canary-canary-canary"}]}',
        b"\xff\xfe",
    ],
)
def test_a_file_that_is_none_is_refused_by_name_and_not_quoted(tmp_path, content):
    (tmp_path / "keys.json").write_bytes(content)

    with pytest.raises(OptionError, match=r"keys\.json|one key that signs") as raised:
        KeyRing.read(tmp_path / "keys.json")

    assert "canary" not in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(OptionError, match=r"the key file .*keys\.json cannot be read: No such file"):
        KeyRing.of(tmp_path / "keys.json", "signing_keys")


@pytest.mark.parametrize("source", [5, b"k1:canary", ["canary"], ("k1", CANARY)])
def test_anything_else_is_no_source(source):
    with pytest.raises(OptionError, match="signing_keys must be text") as raised:
        KeyRing.of(source, "signing_keys")

    assert "canary" not in str(raised.value)


# As a setting


def loaded(folder, environ=None, **given):
    return load(given, environ=environ or {}, start=folder)


def test_the_environment_names_keys_or_their_file(tmp_path):
    (tmp_path / "keys").write_text(f"k1:{ONE}")

    by_text = loaded(tmp_path, {"ONWARD_SIGNING_KEYS": f"k1:{ONE}", "ONWARD_SIGNING": "require"})
    by_file = loaded(tmp_path, {"ONWARD_SIGNING_KEYS_FILE": str(tmp_path / "keys")})

    assert by_text.signing_keys == by_file.signing_keys == KeyRing.parse(f"k1:{ONE}")
    assert (by_text.signing, by_file.signing) == ("require", None)


def test_a_configuration_file_names_the_key_file_from_its_own_folder(tmp_path):
    below = tmp_path / "src"
    below.mkdir()
    (tmp_path / "keys").write_text(f"k1:{ONE}")
    (tmp_path / "onward.toml").write_text('signing_keys_file = "keys"\nsigning = "require"')

    assert loaded(below).signing_keys.path == tmp_path / "keys"


def test_an_argument_beats_the_environment_and_that_a_file(tmp_path):
    (tmp_path / "keys").write_text(f"k1:{ONE}")
    (tmp_path / "onward.toml").write_text('signing_keys_file = "keys"')
    environ = {"ONWARD_SIGNING_KEYS": f"k2:{TWO}"}

    assert loaded(tmp_path, environ).signing_keys.signing.id == "k2"
    assert loaded(tmp_path, environ, signing_keys={"k3": THREE}).signing_keys.signing.id == "k3"
    assert loaded(tmp_path, environ, signing_keys=None).signing_keys is None


@pytest.mark.parametrize(
    ("environ", "toml", "complaint"),
    [
        ({"ONWARD_SIGNING_KEYS": f"k1:{ONE}", "ONWARD_SIGNING_KEYS_FILE": "keys"}, "", "are both set"),
        ({"ONWARD_SIGNING_KEYS_FILE": "nowhere"}, "", "nowhere cannot be read"),
        ({"ONWARD_SIGNING": "always"}, "", "must be off, warn or require, not 'always'"),
        ({}, 'signing = "on"', "must be off, warn or require, not 'on'"),
        ({}, f'signing_keys = "k1:{CANARY}"', "keys do not belong in a configuration file"),
        ({}, "signing_keys_file = 5", "signing_keys_file must be text"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, environ, toml, complaint):
    (tmp_path / "onward.toml").write_text(toml)

    with pytest.raises(OptionError, match=complaint) as raised:
        loaded(tmp_path, environ)

    assert "canary" not in str(raised.value)


# How it changes


@pytest.mark.promise("S37")
def test_a_rotation_adds_a_key_that_verifies_and_lets_it_sign_later():
    ring = KeyRing.parse(f"k1:{ONE}")

    added = ring.adding(Key.new("k2"))
    promoted = added.promoting()
    revoked = promoted.revoking("k1")

    assert states(added) == [("k2", "verifies"), ("k1", "signs")]
    assert states(promoted) == [("k2", "signs"), ("k1", "verifies")]
    assert states(revoked) == [("k2", "signs"), ("k1", "revoked")]
    assert ONE.encode() not in revoked.to_file()


def test_promoting_twice_does_not_bring_an_old_key_back():
    ring = KeyRing.parse(f"k2:{TWO},k1:{ONE}")

    with pytest.raises(OptionError, match="no key is newer than k2"):
        ring.promoting()
    assert ring.promoting("k1").signing.id == "k1"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda ring: ring.promoting("k9"), "'k9' is not a key that verifies: k1"),
        (lambda ring: ring.promoting("k0"), "'k0' is not a key that verifies: k1"),
        (lambda ring: ring.revoking("k9"), "no key 'k9'"),
        (lambda ring: ring.revoking("k2"), "k2 signs: let another sign first"),
        (lambda ring: ring.adding(Key.new("k1")), "k1 is on the ring twice"),
    ],
)
def test_a_change_that_would_break_it_is_refused(change, complaint):
    with pytest.raises(OptionError, match=complaint):
        change(KeyRing.parse(f"k2:{TWO},k1:{ONE},k0:revoked"))


def test_a_new_key_is_its_own():
    keys = [Key.new() for _ in range(50)]

    assert len({key.secret for key in keys}) == 50
    assert all(KeyRing.parse(f"{key.id}:{key.secret.decode()}") for key in keys)
    assert Key.new("k1").fingerprint != Key.new("k1").fingerprint


# Secrets


@pytest.mark.parametrize(
    "shown",
    [
        repr,
        str,
        "{}".format,
        lambda ring: repr(ring.keys),
        lambda ring: repr(ring.states),
        lambda ring: repr(Settings(signing_keys=ring)),
    ],
)
def test_nothing_that_is_shown_holds_a_secret(shown):
    ring = KeyRing.parse(f"k1:{CANARY}")

    assert "k1" in shown(ring)
    assert "canary" not in shown(ring)


def test_a_ring_is_not_pickled_and_its_copy_is_itself():
    ring = KeyRing.parse(f"k1:{CANARY}")

    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(ring)
    assert copy.deepcopy(ring) is copy.copy(ring) is ring
