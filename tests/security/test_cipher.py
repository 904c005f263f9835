"""Ciphertext decrypts in the place that it was made for, with the key that it was made with, and nowhere else."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.errors import DecryptionFailed, DecryptionKeyMissing, EncryptionUnavailable
from onward.security.cipher import ALGORITHM, Cipher
from onward.security.key_ring import KeyRing

OLD, NEW = "old-" * 10, "new-" * 10
RING = KeyRing.parse(f"k2:{NEW},k1:{OLD}")
PLACE = ("payload", "mail")
names = st.text(min_size=0, max_size=20)


def opened(cipher, text, key_id="k2", place=PLACE, bound=("id", "job")):
    return cipher.opening(ALGORITHM, key_id, *place).open(text, *bound)


@given(clear=st.binary(max_size=300), purpose=names, queue=names, bound=st.lists(names, max_size=3))
def test_what_was_encrypted_decrypts_in_its_place(clear, purpose, queue, bound):
    text = Cipher(RING, "shop").closing(purpose, queue).close(clear, *bound)

    assert opened(Cipher(RING, "shop"), text, place=(purpose, queue), bound=bound) == clear


def test_the_same_is_never_encrypted_alike():
    box = Cipher(RING, "shop").closing(*PLACE)

    assert len({box.close(b"{}", "id") for _ in range(100)}) == 100


@pytest.mark.promise("S46")
def test_no_bit_can_be_changed():
    cipher = Cipher(RING, "shop")
    for clear in (b"{}", b'{"n":1}', b'{"n":12}'):  # which end in one, in two and in no signs that only fill
        text = cipher.closing(*PLACE).close(clear, "id", "job")
        for at in range(len(text) * 8):
            changed = bytearray(text)
            changed[at // 8] ^= 1 << at % 8
            with pytest.raises(DecryptionFailed):
                opened(cipher, bytes(changed))
        assert opened(cipher, text) == clear


@pytest.mark.promise("S46")
@pytest.mark.parametrize("cut", [b"", b"QUJD", b"QUJDREVGR0hJSktM", b"not base64", b"\xff" * 40])
def test_what_is_no_ciphertext_at_all_is_refused(cut):
    with pytest.raises(DecryptionFailed):
        opened(Cipher(RING, "shop"), cut)


@pytest.mark.promise("S46")
def test_the_bits_that_base64_does_not_use_cannot_be_changed_either():
    cipher = Cipher(RING, "shop")
    text = cipher.closing(*PLACE).close(b'{"n":1}', "id", "job")
    assert text.endswith(b"=")
    signs = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = len(text.rstrip(b"=")) - 1

    found = []
    for sign in signs:
        try:
            opened(cipher, text[:last] + bytes([sign]) + text[last + 1 :])
            found.append(sign)
        except DecryptionFailed:
            pass

    assert found == [text[last]]


@pytest.mark.promise("S46")
@pytest.mark.parametrize(
    "elsewhere",
    [
        {"bound": ("other", "job")},
        {"bound": ("id", "other")},
        {"bound": ("idj", "ob")},
        {"bound": ("id",)},
        {"place": ("result", "mail")},
        {"place": ("payload", "ops")},
        {"place": ("payloa", "dmail")},
        {"key_id": "k1"},
        {"cipher": Cipher(RING, "staging")},
        {"cipher": Cipher(KeyRing.parse(f"k2:{OLD}"), "shop")},
    ],
    ids=["id", "job", "border", "fewer", "purpose", "queue", "other border", "key", "namespace", "secret"],
)
def test_ciphertext_from_elsewhere_is_refused(elsewhere):
    text = Cipher(RING, "shop").closing(*PLACE).close(b'{"n":1}', "id", "job")

    with pytest.raises(DecryptionFailed) as refused:
        opened(**{"cipher": Cipher(RING, "shop"), "text": text} | elsewhere)

    assert not isinstance(refused.value, DecryptionKeyMissing)


def test_the_key_that_signs_encrypts_and_every_active_one_decrypts():
    before, after = Cipher(KeyRing.parse(f"k1:{OLD}"), "shop"), Cipher(RING, "shop")
    text = before.closing(*PLACE).close(b"old", "id", "job")

    assert after.closing(*PLACE).key_id == "k2"
    assert opened(after, text, "k1") == b"old"


@pytest.mark.parametrize(
    ("ring", "algorithm", "kind", "told"),
    [
        (KeyRing.parse(f"k3:{NEW},k2:revoked"), ALGORITHM, DecryptionFailed, "key k2, which is revoked"),
        (KeyRing.parse(f"k3:{NEW}"), ALGORITHM, DecryptionKeyMissing, "key 'k2', which is not known here: give"),
        (None, ALGORITHM, DecryptionKeyMissing, "key 'k2', which is not known here"),
        (RING, "CHACHA20", DecryptionKeyMissing, "by 'CHACHA20', which is not known here: upgrade onward"),
    ],
)
def test_what_cannot_be_decrypted_says_what_is_lacking(ring, algorithm, kind, told):
    with pytest.raises(DecryptionFailed, match=told) as refused:
        Cipher(ring, "shop").opening(algorithm, "k2", *PLACE)

    assert type(refused.value) is kind


def test_without_the_library_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)

    with pytest.raises(EncryptionUnavailable, match=r"pip install 'onward\[crypto\]'"):
        Cipher(RING, "shop").refuse_without_key()
    with pytest.raises(DecryptionKeyMissing, match=r"pip install 'onward\[crypto\]'"):
        Cipher(RING, "shop").opening(ALGORITHM, "k2", *PLACE)


def test_without_a_key_it_says_how_to_get_one():
    with pytest.raises(EncryptionUnavailable, match="`onward keys new` makes one"):
        Cipher(None, "shop").refuse_without_key()


class TestDigests:
    @given(parts=st.lists(names, max_size=4), others=st.lists(names, max_size=4))
    def test_they_are_the_same_for_the_same_parts_only(self, parts, others):
        cipher = Cipher(RING, "shop")

        assert (cipher.digest(*parts) == cipher.digest(*others)) is (parts == others)

    def test_they_depend_on_the_secret_and_the_namespace(self):
        rings = [RING, KeyRing.parse(f"k1:{NEW}")]

        assert len({Cipher(ring, space).digest("x") for ring in rings for space in ("shop", "staging")}) == 4

    @pytest.mark.parametrize(("old", "new"), [("2026-05", "2026-11"), ("k9", "k10"), ("a", "a1"), ("7", "k7")])
    def test_a_rotation_changes_nothing_until_the_oldest_key_goes(self, old, new):
        steps = [f"{old}:{OLD}", f"{old}:{OLD},{new}:{NEW}", f"{new}:{NEW},{old}:{OLD}", f"{new}:{NEW},{old}:revoked"]
        *before, after = [Cipher(KeyRing.parse(step), "shop").digest("x") for step in steps]

        assert len(set(before)) == 1
        assert after not in before
