"""Pages of a real browser on which anything wrong fails the test: errors, warnings, dialogs, refusals, foreign requests."""

import re
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

SCREENS = Path("build/screens")  # below the root of the repository

# Runs before any script of the page: what the policy refuses is told to the console, and counted.
_TELLS_VIOLATIONS = """
addEventListener('securitypolicyviolation', (event) => console.error(
  `CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


class Watched:
    """A context of the browser with one page or more, and all that went wrong there."""

    def __init__(self, browser, hosts, **options):
        self.trouble = []
        self.expected = []  # what may go wrong, as expressions
        self.requests = []
        self._hosts = hosts
        settings = {"reduced_motion": "reduce", "locale": "en-GB", "timezone_id": "UTC", **options}
        self.context = browser.new_context(**settings)
        self.context.set_default_timeout(30_000)
        self.context.add_init_script(_TELLS_VIOLATIONS)
        self.context.on("request", self._asked)

    def page(self):
        page = self.context.new_page()
        page.on("console", self._told)
        page.on("pageerror", lambda error: self._note(f"page error: {error}"))
        page.on("dialog", self._dialog)
        return page

    def forget(self):
        """Forget all that was noted and expected."""
        for noted in (self.trouble, self.expected, self.requests):
            noted.clear()

    def close(self):
        self.context.close()

    def picture(self, name):
        """Keep what is seen."""
        SCREENS.mkdir(parents=True, exist_ok=True)
        file = re.sub(r"[^\w.-]+", "-", name)
        for number, page in enumerate(self.context.pages):
            with suppress(Exception):  # the page may be what crashed; the test has failed anyway
                page.screenshot(path=SCREENS / f"{file}-{number}.png", full_page=True)

    def check(self):
        unexpected = [each for each in self.trouble if not any(re.search(allowed, each) for allowed in self.expected)]
        assert unexpected == []

    def _asked(self, request):
        self.requests.append(request.url)
        if urlsplit(request.url).netloc not in self._hosts and urlsplit(request.url).scheme not in ("data", "blob"):
            self.trouble.append(f"a request to another host: {request.url}")

    def _told(self, line):
        if line.type in ("error", "warning"):
            self._note(f"{line.type}: {line.text} ({line.location.get('url', '')})")

    def _dialog(self, dialog):
        self._note(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _note(self, text):
        self.trouble.append(text)
