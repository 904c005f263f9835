"""A dashboard with one page on it, for tests of a module that change nothing there: it is loaded once for all of them."""

from tests.web.browser.watched import Watched


class Shared:
    """The dashboard, and the page that the next test gets: the overview, signed in, with nothing noted yet."""

    def __init__(self, browser, dashboard):
        self.dashboard = dashboard
        self.page = None
        self._browser = browser
        self._watched = None

    def begin(self):
        """Get the page ready; gives what watches it."""
        if self._watched is None:
            self._watched = Watched(self._browser, {self.dashboard.netloc})
            self.page = self.dashboard.opened(self._watched.page())
        else:
            self._watched.forget()
            self.dashboard.go(self.page, "")
        return self._watched

    def end(self, *, again):
        """Close the pages that the test has opened besides; ``again``: the next test gets another one, too."""
        if self._watched is not None and again:
            self.close()
        elif self._watched is not None:
            for other in self._watched.context.pages:
                if other is not self.page:
                    other.close()

    def close(self):
        if self._watched is not None:
            self._watched.close()
            self._watched = None
