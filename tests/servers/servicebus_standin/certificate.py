"""A certificate for one test run, made with the ``openssl`` command and deleted with the stand-in.

It signs itself, so it is its own authority: a client that trusts this one file trusts the stand-in alone.  Nothing
secret is checked in, and nothing expires in a repository.
"""

from __future__ import annotations

import ssl
import subprocess
import tempfile
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path

from tests.servers.servicebus_standin.errors import StandinError

__all__ = ["Certificate"]


class Certificate:
    """Made when it is first needed: most tests speak without TLS."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @cached_property
    def file(self) -> Path:
        self._folder = tempfile.TemporaryDirectory(prefix="servicebus-standin-")
        certificate = Path(self._folder.name, "certificate.pem")
        command = [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", str(self._key(certificate)), "-out", str(certificate), "-days", "2"),
            *("-subj", "/CN=Service Bus stand-in", "-addext", f"subjectAltName={self._names()}"),
        ]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)  # nothing of it comes from outside
        except FileNotFoundError:
            self.remove()
            raise StandinError(
                "TLS needs the openssl command to make a certificate: install the package openssl"
            ) from None
        except subprocess.CalledProcessError as error:
            self.remove()
            raise StandinError(f"openssl could not make a certificate: {error.stderr.strip()}") from None
        return certificate

    @cached_property
    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.file, self._key(self.file))
        return context

    def remove(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def _names(self) -> str:
        try:
            ip_address(self._host)
        except ValueError:
            return f"DNS:{self._host}"
        return f"IP:{self._host},DNS:localhost"

    @staticmethod
    def _key(certificate: Path) -> Path:
        return certificate.with_name("key.pem")
