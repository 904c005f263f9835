"""Signatures: what they are made of, and that nothing else passes for one."""

import hashlib
import hmac
from base64 import b64encode
from contextlib import suppress

import pytest

from onward.errors import EnvelopeError, SignatureRejected, SigningKeyMissing
from onward.job.envelope import Sealed
from onward.security import signing
from onward.security.key_ring import KeyRing
from onward.security.signing import Signer, Signing

SECRET = "s" * 40
OTHER = "o" * 40
BODY = b'{"id":"a","queue":"mail"}'
KNOWN = b"onward/1 k1 UeaQaLfI4FJduO2yC/n0lukTnkon0JDZ7lEvAn8rnYo=\n"


def a_signer(keys=f"k1:{SECRET}", namespace="default"):
    return Signer(KeyRing.parse(keys), namespace)


def a_signing(mode, keys=f"k1:{SECRET}", **others):
    told = []
    ring = None if keys is None else KeyRing.parse(keys)
    made = Signing(ring, mode, "default", unverified=lambda sealed, problem: told.append((sealed.id, problem)))
    return made, told


def signed(signer, queue, body):
    """Key id and signature."""
    header, _, rest = signer.sign(queue)(body).partition(b"\n")
    magic, key_id, signature = header.split(b" ")
    assert (magic, rest) == (b"onward/1", body)
    return key_id, signature


def written_out(secret, namespace, queue, key_id, body):
    """The same by the book, with nothing prepared."""

    def parts(*parts):
        return b"".join(len(part).to_bytes(4, "big") + part for part in parts)

    extracted = hmac.new(b"onward/1 signing keys", secret, hashlib.sha256).digest()
    info = parts(b"onward/1 envelope", namespace, queue)
    key = hmac.new(extracted, info + b"\x01", hashlib.sha256).digest()
    return b64encode(hmac.new(key, parts(b"onward envelope", b"1", key_id) + body, hashlib.sha256).digest())


@pytest.mark.promise("S36")
@pytest.mark.parametrize("body", [b"", BODY, bytes(range(256)) * 50])
def test_a_signature_is_an_hmac_over_all_that_decides_what_runs(body):
    key_id, signature = signed(a_signer(namespace="shop"), "mail", body)

    assert key_id == b"k1"
    assert signature == written_out(SECRET.encode(), b"shop", b"mail", b"k1", body)


def test_a_signature_is_the_same_for_ever():
    """Jobs outlive the code that signed them."""
    assert a_signer().sign("mail")(BODY) == KNOWN + BODY


def test_the_second_signature_of_a_queue_is_made_from_what_the_first_prepared():
    signer = a_signer()

    assert signed(signer, "mail", BODY) == signed(signer, "mail", BODY)
    assert signed(signer, "mail", b"x") == signed(a_signer(), "mail", b"x")


@pytest.mark.promise("S36")
def test_no_two_queues_namespaces_keys_or_secrets_sign_alike():
    signatures = {
        signed(a_signer(keys, namespace), queue, BODY)[1]
        for keys in (f"k1:{SECRET}", f"k2:{SECRET}", f"k1:{OTHER}")
        for namespace in ("a", "ab")
        for queue in ("bc", "c", "ops")
    }

    assert len(signatures) == 18


def test_states_are_kept_for_so_many_queues_and_no_more(monkeypatch):
    monkeypatch.setattr(signing, "_MOST_QUEUES", 3)
    signer = a_signer()

    signatures = [signed(signer, f"q{number % 5}", BODY) for number in range(50)]

    assert len(signer._prepared) <= 3
    assert signatures[:5] == signatures[5:10]


class TestRefusals:
    @pytest.mark.promise("S37")
    def test_any_active_key_verifies_and_the_first_signs(self):
        old, both = a_signer(f"k1:{SECRET}"), a_signer(f"k2:{OTHER},k1:{SECRET}")

        assert signed(both, "mail", BODY)[0] == b"k2"
        assert both.refusal("mail", *signed(old, "mail", BODY), BODY) is None
        assert both.refusal("mail", *signed(both, "mail", BODY), BODY) is None

    @pytest.mark.promise("S37")
    @pytest.mark.parametrize(
        ("keys", "reason"),
        [
            (f"k2:{OTHER}", "signed with key k1, which is not known here"),
            (f"k2:{OTHER},k1:revoked", "signed with key k1, which is revoked"),
            (f"k1:{OTHER}", "its signature by key k1 does not match"),
        ],
    )
    def test_a_key_that_is_unknown_revoked_or_another(self, keys, reason):
        assert reason in a_signer(keys).refusal("mail", *signed(a_signer(), "mail", BODY), BODY)

    def test_no_signature(self):
        assert a_signer().refusal("mail", b"-", b"-", BODY) == "it is not signed"

    def test_a_key_s_name_may_be_anything(self):
        assert "key \\xff\\x00, which is not known" in a_signer().refusal("mail", b"\xff\x00", b"x", BODY)
        assert len(a_signer().refusal("mail", b"k" * 500, b"x", BODY)) < 200

    def test_a_signature_that_is_no_text(self):
        assert "does not match" in a_signer().refusal("mail", b"k1", b"\xff" * 64, BODY)

    def test_a_queue_s_name_may_be_anything(self):
        assert "does not match" in a_signer().refusal("\ud800>", b"k1", b"x", BODY)


class TestModes:
    @pytest.mark.promise("S38")
    @pytest.mark.parametrize(
        ("mode", "keys", "means"),
        [
            (None, None, "off"),
            (None, f"k1:{SECRET}", "warn"),
            ("off", f"k1:{SECRET}", "off"),
            ("require", f"k1:{SECRET}", "require"),
        ],
    )
    def test_with_keys_it_warns_unless_told_otherwise(self, mode, keys, means):
        assert a_signing(mode, keys)[0].mode == means

    def test_off_looks_at_nothing_and_signs_all_the_same(self):
        made, _ = a_signing("off")

        assert made.verify is None
        assert made.sign("mail")(BODY) == a_signer().sign("mail")(BODY)

    def test_without_a_key_nothing_is_signed(self):
        assert a_signing(None, None)[0].sign is None

    def test_warn_tells_and_lets_pass(self):
        made, told = a_signing("warn")

        assert made.verify(Sealed("a", "mail", b"onward/1 - -\n" + BODY)) == BODY
        assert told == [("a", "it is not signed")]

    def test_require_raises(self):
        made, told = a_signing("require")
        with pytest.raises(SignatureRejected, match="it is not signed"):
            made.verify(Sealed("a", "mail", b"onward/1 - -\n" + BODY))

        assert told == []

    @pytest.mark.parametrize("mode", ["warn", "require"])
    @pytest.mark.parametrize("signs", ["k1", "k2"])
    def test_what_any_active_key_has_signed_is_read(self, mode, signs):
        """The one that signs here takes another road than the others."""
        made, told = a_signing(mode, f"k1:{SECRET},k2:{OTHER}")
        data = a_signer(f"{signs}:{SECRET if signs == 'k1' else OTHER}").sign("mail")(BODY)

        assert made.verify(Sealed("a", "mail", data)) == BODY
        assert told == []

    @pytest.mark.parametrize("signs", ["k1", "k2"])
    def test_no_bit_of_it_can_be_turned(self, signs):
        made, _ = a_signing("require", f"k1:{SECRET},k2:{OTHER}")
        data = a_signer(f"{signs}:{SECRET if signs == 'k1' else OTHER}").sign("mail")(BODY)

        passed = []
        for bit in range(8 * len(data)):
            turned = bytearray(data)
            turned[bit // 8] ^= 1 << bit % 8
            with suppress(EnvelopeError):
                passed.append(made.verify(Sealed("a", "mail", bytes(turned))))

        assert passed == []

    @pytest.mark.promise("S38")
    def test_require_without_a_key_names_the_fix(self):
        made, _ = a_signing("require", None)

        for refused in (made.refuse_without_key, lambda: made.sign("mail")):
            with pytest.raises(SigningKeyMissing, match=r"ONWARD_SIGNING_KEYS.*`onward keys new`"):
                refused()

    @pytest.mark.parametrize("mode", ["off", "warn", None])
    def test_the_other_modes_need_no_key(self, mode):
        a_signing(mode, None)[0].refuse_without_key()
