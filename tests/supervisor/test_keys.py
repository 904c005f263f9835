"""Keys that change under a worker: its processes go on, and go by the new ones."""

import pytest

from onward import Onward, State
from onward.cli import main
from onward.security.key_ring import KeyRing
from tests.supervisor.fleets import eventually


@pytest.mark.promise("S37")
def test_a_key_that_is_added_or_revoked_reaches_a_worker_that_runs(open_shop, start, folder, monkeypatch):
    path = folder / "keys.json"

    def keys(*words):
        return main(["keys", *words, "--file", str(path), "--quiet"])

    assert keys("new", "--id", "k1") == 0
    monkeypatch.setenv("ONWARD_SIGNING_KEYS_FILE", str(path))
    monkeypatch.setenv("ONWARD_SIGNING", "require")
    shop = open_shop()
    fleet = start(shop)
    before = KeyRing.read(path)
    (first,) = shop.ended(shop.plain.enqueue(1))

    assert keys("rotate", "--id", "k2") == 0
    with Onward(shop.store.url(), signing_keys=KeyRing(KeyRing.read(path).promoting().keys)) as ahead:
        (added,) = shop.ended(ahead.enqueue("plain", {"n": 2}))  # signed before a worker could look

    assert keys("rotate", "--promote") == 0
    assert keys("revoke", "k1") == 0
    with Onward(shop.store.url(), signing_keys=KeyRing(before.keys)) as behind:

        def refused():
            (record,) = shop.ended(behind.enqueue("plain", {"n": 3}))
            return record if record.state is State.DISCARDED else None

        revoked = eventually(refused)
    # This very process has enqueued with the first key; by now it has looked, too.
    promoted = eventually(lambda: job if (job := shop.plain.enqueue(4)).record().raw[:12] == b"onward/1 k2 " else None)

    assert (first.state, added.state, added.raw[:12]) == (State.COMPLETED, State.COMPLETED, b"onward/1 k2 ")
    assert revoked.reason == "it was signed with key k1, which is revoked"
    assert shop.ended(promoted)[0].state is State.COMPLETED
    assert fleet.stop() == 0
    assert "cannot be read again" not in fleet.log
