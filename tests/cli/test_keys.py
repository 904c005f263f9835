"""`onward keys`: making keys, changing them in two steps, taking one back; and a worker that requires them."""

import json
import stat

import pytest

from onward.security.key_ring import KeyRing

SECRET = "canary-canary-canary-canary-canary-canary"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "keys.json"


def listed(ran):
    return [(line["id"], line["state"]) for line in ran.json]


def test_a_new_key_is_printed_as_the_environment_wants_it(onward, monkeypatch):
    ran = onward("keys", "new", "--id", "k1")
    monkeypatch.setenv("ONWARD_SIGNING_KEYS", ran.out.strip())

    assert ran.code == 0
    assert "ONWARD_SIGNING_KEYS" in ran.err
    assert listed(onward("keys", "list", "--json")) == [("k1", "signs")]


def test_as_json_too(onward):
    (made,) = onward("keys", "new", "--json").json

    assert made["key"].startswith(f"{made['id']}:")
    assert KeyRing.parse(made["key"]).signing.fingerprint == made["fingerprint"]


def test_a_new_file_is_its_owner_s_and_nothing_of_it_is_printed(onward, file):
    ran = onward("keys", "new", "--file", file)

    ring = KeyRing.read(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert ring.signing.id in ran.out
    assert ring.signing.secret.decode() not in ran.out + ran.err


def test_a_file_that_is_there_is_not_written_over(onward, file):
    onward("keys", "new", "--file", file)
    before = file.read_bytes()
    ran = onward("keys", "new", "--file", file)

    assert (ran.code, file.read_bytes()) == (2, before)
    assert "`onward keys rotate --file` adds a key" in ran.err


@pytest.mark.promise("S37")
def test_a_rotation_has_two_steps_and_an_end(onward, file):
    onward("keys", "new", "--file", file, "--id", "k1")

    added = onward("keys", "rotate", "--file", file, "--id", "k2", "--json")
    promoted = onward("keys", "rotate", "--file", file, "--promote", "--json")
    revoked = onward("keys", "revoke", "k1", "--file", file, "--json")

    assert listed(added) == [("k2", "verifies"), ("k1", "signs")]
    assert listed(promoted) == [("k2", "signs"), ("k1", "verifies")]
    assert listed(revoked) == [("k2", "signs"), ("k1", "revoked")]
    assert listed(onward("keys", "list", "--file", file, "--json")) == listed(revoked)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in file.parent.iterdir()] == ["keys.json"]


def test_the_file_that_the_settings_name_is_the_one_that_changes(onward, file, monkeypatch):
    onward("keys", "new", "--file", file, "--id", "k1")
    file.chmod(0o640)
    monkeypatch.setenv("ONWARD_SIGNING_KEYS_FILE", str(file))

    assert onward("keys", "rotate").code == 0
    assert len(KeyRing.read(file).keys) == 2
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("keys", "list"), 6, "no keys are set here"),
        (("keys", "rotate"), 6, "no keys are set here"),
        (("keys", "list", "--file", "nowhere"), 3, "nowhere cannot be read"),
        (("keys", "new", "--id", "-"), 2, "a key's id has letters"),
        (("keys", "rotate", "--file", "keys.json", "--promote"), 2, "no key is newer than k1"),
        (("keys", "revoke", "k1", "--file", "keys.json"), 2, "k1 signs: let another sign first"),
        (("keys", "revoke", "k9", "--file", "keys.json"), 6, "there is no key 'k9'"),
    ],
)
def test_what_cannot_be_done_says_what_to_do(onward, file, words, code, told):
    onward("keys", "new", "--file", file, "--id", "k1")

    ran = onward(*words)

    assert ran.code == code
    assert told in ran.err


def test_keys_of_the_environment_are_not_rotated_for_you(onward, monkeypatch):
    monkeypatch.setenv("ONWARD_SIGNING_KEYS", f"k1:{SECRET}")
    ran = onward("keys", "rotate")

    assert ran.code == 3
    assert "these keys do not come from a file" in ran.err


def test_no_command_shows_a_secret(onward, url, file, monkeypatch):
    monkeypatch.setenv("ONWARD_SIGNING_KEYS", f"k2:{SECRET},k1:{SECRET[::-1]}")
    onward("enqueue", "work")
    looks = [
        onward(*words)
        for words in (("config",), ("config", "--json"), ("config", "--debug"), ("keys", "list"), ("job", "list"))
    ]

    assert all(ran.code == 0 for ran in looks)
    assert not any(SECRET[:9] in ran.out + ran.err or SECRET[::-1][:9] in ran.out + ran.err for ran in looks)
    assert "k2 signs, k1 verifies" in looks[0].out
    told = {line["name"]: (line["value"], line["source"]) for line in looks[1].json}
    assert told["signing_keys"] == ({"k2": "signs", "k1": "verifies"}, "ONWARD_SIGNING_KEYS")


def test_every_help_has_an_example(onward):
    for verb in ("new", "list", "rotate", "revoke"):
        assert f"`onward keys {verb}" in " ".join(onward("keys", verb, "--help").out.split())


@pytest.mark.promise("S38")
def test_a_worker_that_requires_signatures_and_has_no_key_does_not_start(shell, shop, url):
    ran = shell("worker", shop(url), "--signing", "require", "--until-empty")

    assert ran.code == 3
    assert "signing is 'require' and there is no key: set ONWARD_SIGNING_KEYS" in ran.err


@pytest.mark.promise("S36", "S38")
def test_a_worker_process_runs_what_is_signed_and_nothing_else(shell, shop, url, onward, jobs, file, monkeypatch):
    app = shop(url)
    forged = jobs.enqueue("welcome", {"user": 1}, queue="mail")
    onward("keys", "new", "--file", file)
    monkeypatch.setenv("ONWARD_SIGNING_KEYS_FILE", str(file))
    assert onward("enqueue", "welcome", "user=2", "--queue", "mail").code == 0

    ran = shell("worker", app, "--signing", "require", "--until-empty")

    assert ran.code == 0, ran.err
    assert forged.record().reason == "it is not signed"
    assert [(record.state, record.payload["user"]) for record in jobs.list()] == [("discarded", 1), ("completed", 2)]
    secret = json.loads(file.read_text())["keys"][0]["secret"]
    assert secret not in ran.err + ran.out
