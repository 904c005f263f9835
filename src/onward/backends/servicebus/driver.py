"""The SDK, which is an extra: without it the error names the extra."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any

from onward.errors import BackendMisconfigured

try:
    import azure.servicebus as sdk
    from azure.core import exceptions as http
    from azure.servicebus import exceptions as faults
    from azure.servicebus import management
except ImportError as error:
    raise BackendMisconfigured(
        "servicebus:// needs the SDK azure-servicebus: pip install 'onward[servicebus]'"
    ) from error

__all__ = ["default_credential", "faults", "http", "management", "sdk"]

_OLDEST = (7, 15)

if tuple(int(number) for number in sdk.__version__.split(".")[:2]) < _OLDEST:
    # Before 7.15 a settlement was not answered: a lost lock looked like a success.
    raise BackendMisconfigured(
        f"azure-servicebus {sdk.__version__} does not say when a lock was lost: 7.15 or newer is needed, "
        f"pip install -U 'onward[servicebus]'"
    )

# The SDK logs every frame and every request at INFO.  A program that wants those lines has chosen a level.
for _name in ("azure.servicebus", "azure.core"):
    if logging.getLogger(_name).level == logging.NOTSET:
        logging.getLogger(_name).setLevel(logging.WARNING)


def default_credential() -> Any:
    """Return this machine's identity: environment, workload or managed identity, a login at the command line."""
    try:
        identity = import_module("azure.identity")
    except ImportError as error:
        raise BackendMisconfigured(
            "servicebus:// without a key asks azure-identity who you are, and it is not installed: "
            "pip install 'onward[servicebus-identity]', or write servicebus://KEYNAME:KEY@NAMESPACE"
        ) from error
    return identity.DefaultAzureCredential()
