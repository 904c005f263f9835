"""The keys of one application: signing and encryption with one ring, and the file that it may come from."""

from __future__ import annotations

from onward.security.encryption import Encryption
from onward.security.key_file import KeyFile
from onward.security.key_ring import KeyRing, Mode
from onward.security.note_seals import NoteSeals
from onward.security.signing import Signing, Unverified

__all__ = ["Keys"]


class Keys:
    """Signing and encryption, always with the same ring, which may change while the application runs."""

    def __init__(
        self, ring: KeyRing | None, namespace: str, *, encrypts: bool, signing: Mode | None, unverified: Unverified
    ) -> None:
        self.encryption = Encryption(ring, namespace, enabled=encrypts)
        self.file = None if ring is None or ring.path is None else KeyFile(ring, ring.path, self._adopt)
        look = None if self.file is None else self.file.look_now
        self.signing = Signing(ring, signing, namespace, unverified=unverified, look=look)
        self.note_seals = NoteSeals(self.signing, self.encryption)

    def look(self) -> KeyRing | None:
        """Read the file again if a second has passed.  Returns the current ring; None for keys that never change."""
        return None if self.file is None else self.file.look()

    def refuse_without_key(self) -> None:
        """Raise if jobs must be signed and there is no key."""
        self.signing.refuse_without_key()
        self.look()

    def watch(self) -> None:
        """Look at the file every second from now on: a worker verifies, and never calls `look`."""
        if self.file is not None:
            self.file.watch()

    def close(self) -> None:
        if self.file is not None:
            self.file.close()

    def _adopt(self, ring: KeyRing) -> None:
        self.encryption.adopt(ring)
        self.signing.adopt(ring)
