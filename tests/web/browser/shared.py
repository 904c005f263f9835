"""A dashboard with one page on it, for tests of a module that change nothing there: it is loaded once for all of them."""


class Shared:
    """The dashboard, and the page that the next test gets: the overview, signed in, with nothing noted yet."""

    def __init__(self, kept, dashboard):
        self.dashboard = dashboard
        self.page = None
        self._kept = kept

    def begin(self):
        """Get the page ready; gives what watches it."""
        watched = self._kept.take({self.dashboard.netloc}, at=self.dashboard.url())
        is_there = watched.is_at(self.dashboard.url())
        self.page = watched.page()
        if is_there:
            self.dashboard.go(self.page, "")
        else:
            self.dashboard.opened(self.page)
        return watched

    def end(self, *, failed):
        """Close the pages that the test has opened besides; after a failure the next test gets another one, too."""
        self._kept.give_back(failed=failed, stay=True)

    def close(self):
        """Leave the dashboard before its server ends."""
        self._kept.leave()
