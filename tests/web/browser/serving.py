"""A dashboard on a real server and a real port, in a thread of this process."""

from contextlib import ExitStack, contextmanager

from onward.cli.listening import bound
from onward.cli.web_server import WebAddress, hosts_of, serving
from tools.busy_store import Shop

TOKEN = "a token that tests know"
_GO = """(url) => new Promise((gone) => {
  history.pushState(null, '', url);
  dispatchEvent(new PopStateEvent('popstate'));
  requestAnimationFrame(() => requestAnimationFrame(gone));
})"""


class Served:
    """Where a dashboard is, and the application behind it."""

    def __init__(self, address, shop):
        self.address = address
        self.shop = shop
        self.jobs = shop and shop.jobs

    @property
    def netloc(self):
        return f"{self.address.host}:{self.address.port}"

    def url(self, path=""):
        return f"{self.address.url}{path}"

    def opened(self, page, path=""):
        """Open a page as the address that `onward web` prints does: signed in by the token behind the hash."""
        page.goto(f"{self.url(path)}#token={TOKEN.replace(' ', '%20')}")
        return page

    def go(self, page, path):
        """Go to another page as a link does: nothing is loaded anew.  What was there before is gone afterwards."""
        page.evaluate(_GO, self.url(path))
        return page


@contextmanager
def served(store, *, auth=None, wrap=lambda asgi: asgi, **options):
    """Serve the dashboard of a store, or of an application on one, on a free port."""
    from onward.web import Dashboard, Token

    with ExitStack() as stack:
        shop = Shop(store) if isinstance(store, str) else store
        stack.enter_context(shop.jobs)
        listening = bound("127.0.0.1", 0)
        address = WebAddress("127.0.0.1", listening.getsockname()[1])
        options = {"allowed_hosts": hosts_of(address, ()), "refresh": 0.2, **options}
        dashboard = Dashboard(shop.jobs, auth=auth or Token(TOKEN), **options)
        stack.enter_context(serving(wrap(dashboard.asgi), listening))
        yield Served(address, shop)
