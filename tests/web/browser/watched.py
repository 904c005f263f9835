"""Pages of a real browser on which anything wrong fails the test: errors, warnings, dialogs, refusals, foreign requests."""

import re
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

SCREENS = Path("build/screens")  # below the root of the repository
DESK = {"width": 1280, "height": 720}

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
        self._left = None  # a page that nobody uses any more
        settings = {"reduced_motion": "reduce", "locale": "en-GB", "timezone_id": "UTC", **options}
        self.context = browser.new_context(**settings)
        self.context.set_default_timeout(30_000)
        self.context.add_init_script(_TELLS_VIOLATIONS)
        self.context.on("request", self._asked)

    def page(self):
        """Return a page: the one that an earlier test has left, or a new one."""
        if self._left is not None:
            page, self._left = self._left, None
            return page
        page = self.context.new_page()
        page.on("console", self._told)
        page.on("pageerror", lambda error: self._note(f"page error: {error}"))
        page.on("dialog", self._dialog)
        return page

    def forget(self, hosts):
        """Forget all that was noted and expected, for a test with other servers."""
        self._hosts = hosts
        for noted in (self.trouble, self.expected, self.requests):
            noted.clear()

    def leave(self):
        """Leave the servers: no cookie, nothing kept in the browser, one empty page as a new one is."""
        page = self._one_page()
        if page is not None:
            with suppress(Exception):  # a page of no server has no storage
                page.evaluate("localStorage.clear()")
            page.goto("about:blank")
            page.set_viewport_size(DESK)
            page.emulate_media(color_scheme="light", reduced_motion="reduce")
        self.context.clear_cookies()

    def stay(self):
        """Let the next test have the page as it is."""
        self._one_page()

    def is_at(self, url):
        """Return whether the page that is left is one of a server."""
        return self._left is not None and self._left.url.startswith(url)

    def _one_page(self):
        self._left, *others = [*self.context.pages, None][:1] + self.context.pages[1:]
        for other in others:
            other.close()
        return self._left

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


class Kept:
    """The context that most tests use, one after the other: a new one takes a second of processor time."""

    def __init__(self, browser):
        self._browser = browser
        self._watched = None
        self.is_taken = False

    def take(self, hosts, at=None):
        """Return the context, without anything of an earlier test; ``at``: its page may be at this address already."""
        if self._watched is None:
            self._watched = Watched(self._browser, hosts)
        elif at is None or not self._watched.is_at(at):
            self._watched.leave()
        self._watched.forget(hosts)
        self.is_taken = True
        return self._watched

    def give_back(self, *, failed, stay=False):
        """End a test; ``stay``: its server stays, so the page does, too."""
        self.is_taken = False
        if failed:
            self.close()
        elif stay:
            self._watched.stay()
        else:
            self._watched.leave()

    def leave(self):
        if self._watched is not None and not self.is_taken:
            self._watched.leave()

    def close(self):
        if self._watched is not None:
            self._watched.close()
            self._watched = None
