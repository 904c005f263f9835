"""Lines of the ``onward`` command that a job starts: their process has the application's settings, keys and all."""

import json
import subprocess
from unittest import mock

import pytest

from onward import Onward
from onward.key_ring import KeyRing

OLD, NEW = "o" * 40, "n" * 40
RING = KeyRing.parse(f"new:{NEW},old:{OLD},lost:revoked")
LINES = {
    "welcome": ["enqueue", "greet", "--payload", '{"name": "canary"}', "--queue", "mail"],
    "settings": ["config", "--json"],
}


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "keys.json"
    # As it is between two steps of a rotation: the newest key does not sign yet.
    path.write_bytes(RING.promoting("old").to_file())
    path.chmod(0o600)
    return path


@pytest.fixture(params=["a ring", "text", "a file", "the environment"])
def open_signing(request, tmp_path, key_file, monkeypatch):
    """An application whose code names its keys; its environment names others, or the keys of the application."""
    keys = {"a ring": RING.promoting("old"), "text": f"old:{OLD},new:{NEW}", "a file": key_file}.get(request.param)
    if keys is None:
        monkeypatch.setenv("ONWARD_SIGNING_KEYS_FILE", "keys.json")
        settings = {}
    else:
        monkeypatch.setenv("ONWARD_SIGNING_KEYS", f"old:{'x' * 40}")
        settings = {"signing_keys": keys}
    monkeypatch.setenv("ONWARD_SIGNING", "off")
    monkeypatch.setenv("ONWARD_DEAD_LETTER_QUEUE", "elsewhere")

    def open_signing(**more):
        return Onward(
            "sqlite:///jobs.db?durability=relaxed",
            signing="require",
            encryption=True,
            dead_letter_queue=None,
            handlers={"command": {"allow": LINES}},
            queue_handlers={"ops": ["command"]},
            **settings,
            **more,
        )

    return open_signing


def run(jobs, line):
    """What the line said."""
    handle = jobs.define("command", line).queue("ops").dispatch()
    jobs.drain("ops")
    return handle.result()


@pytest.mark.promise("S36", "S47")
def test_what_a_child_enqueues_is_signed_and_encrypted_like_what_the_application_does(open_signing):
    greeted = []
    with open_signing() as jobs, mock.patch("subprocess.Popen", wraps=subprocess.Popen) as popen:

        @jobs.job(queue="mail")
        def greet(name: str):
            greeted.append(name)

        said = run(jobs, "welcome")
        (waiting,) = jobs.list(queue="mail")
        jobs.drain("mail")

        assert greeted == ["canary"]
        assert waiting.raw.startswith(b"onward/1 old ")
        assert b"canary" not in waiting.raw
        # Every user of the machine reads a command line; the environment only the same user does.
        assert not any(secret in repr(popen.call_args.args) for secret in (OLD, NEW))
        assert not any(secret in repr(said) for secret in (OLD, NEW))


def test_a_child_has_every_setting_that_an_environment_can_tell(open_signing):
    with open_signing(namespace="shop", default_max_retries=7) as jobs:
        said = {each["name"]: each["value"] for each in map(json.loads, run(jobs, "settings")["stdout"].splitlines())}

        assert said["signing_keys"] == jobs.settings.signing_keys.states
        assert (said["signing"], said["encryption"], said["namespace"]) == ("require", True, "shop")
        assert (said["default_max_retries"], said["dead_letter_queue"]) == (7, None)
