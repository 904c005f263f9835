"""Debian's chromium, driven by playwright: the program, and a browser that talks to nobody but the pages it is shown."""

import shutil
from contextlib import contextmanager
from functools import cache

from tests.servers.programs import apt_install, unavailable

# No sandbox: as root it cannot have one, and it shows our own pages only.  The rest is what it would do by itself.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--in-process-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@cache
def program():
    """Where chromium is; the test is skipped where it cannot be had, and fails there on CI."""
    if shutil.which("chromium") is None:
        apt_install("chromium")
    return shutil.which("chromium") or unavailable("Debian's package chromium")


@contextmanager
def chromium():
    """A browser.  It is Debian's and never playwright's own, which would have to be downloaded."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program(), args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()
