"""Take the pictures of the dashboard that the documentation shows: a real browser, a busy store, both colour schemes.

    python -m tools.web_pictures            writes docs/assets/dashboard-*.png
    python -m tools.web_pictures FOLDER     every page in both schemes and both widths, empty, busy, and with its store away

Pictures are of the moment they are taken: no check compares them.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from onward.cli.listening import bound
from onward.cli.web_server import WebAddress, dashboard_of, new_token, serving
from tests.servers.chromium import chromium
from tests.servers.redis import redis_server
from tools.busy_store import Seen, Shop, fill

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[1]
ASSETS = ROOT / "docs" / "assets"
WIDTHS = {1280: 800, 390: 844}
SCHEMES = ("light", "dark")
# Where this repository lies is nobody's concern: tracebacks name another folder.
_MOVES = """([from, to]) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(from, to);
}"""


class Picture(NamedTuple):
    """One page, as the documentation shows it."""

    name: str
    path: str
    scheme: str = "light"
    width: int = 1280


def pages(seen: Seen | None) -> dict[str, str]:
    """Return the path of every page, by a name for its picture."""
    plain = ("queues", "jobs", "dead", "workers", "schedules", "flows", "limits", "health", "audit")
    paths = {"overview": "", **{name: name for name in plain}}
    if seen is not None:
        paths |= {
            "queue": "queues/letters",
            "group": f"dead/{seen.group}",
            "schedule": "schedules/nightly-stock",
            "job-dead": f"jobs/{seen.dead}",
            "job-due": f"jobs/{seen.due}",
            "job-running": f"jobs/{seen.running}",
            "job-done": f"jobs/{seen.done}",
            "job-limited": f"jobs/{seen.limited}",
            "workflow": f"flows/{seen.flow}",
        }
    return paths


@contextmanager
def served(url: str) -> Iterator[str]:
    """Serve the dashboard of a store; gives its address, with a token behind the hash."""
    with Shop(url).jobs as jobs:
        listening = bound("127.0.0.1", 0)
        address = WebAddress("127.0.0.1", listening.getsockname()[1])
        token = new_token()
        dashboard = dashboard_of(jobs, address, token=token, title="shop")
        with serving(dashboard.asgi, listening):
            yield f"{address.url}#token={token}"


@contextmanager
def _page(browser: Browser, address: str, scheme: Any, width: int) -> Iterator[Page]:
    context = browser.new_context(
        viewport={"width": width, "height": WIDTHS[width]},
        color_scheme=scheme,
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="UTC",
    )
    try:
        page = context.new_page()
        page.goto(address)
        page.get_by_role("heading", name="Overview", level=1).wait_for()  # it is signed in
        yield page
    finally:
        context.close()


def _take(page: Page, address: str, path: str, file: Path, *, whole: bool) -> None:
    page.goto(address.partition("#")[0] + path)
    page.get_by_role("heading", level=1).first.wait_for()
    page.wait_for_load_state("networkidle")
    page.evaluate(_MOVES, [f"{ROOT}/tools/busy_store.py", "/srv/shop/orders.py"])
    page.screenshot(path=file, full_page=whole)


def take_for_docs(folder: Path) -> list[Path]:
    """Take the pictures of the documentation."""
    # A server whose checks all pass: what SQLite's check of its library says depends on this machine.
    with chromium() as browser, redis_server("redis") as server:
        seen = fill(url := server.url(timeout=1), series=True)
        paths = pages(seen)
        wanted = (
            Picture("overview", paths["overview"]),
            Picture("overview-dark", paths["overview"], "dark"),
            Picture("job", paths["job-dead"]),
            Picture("dead", paths["dead"]),
            Picture("workflow", paths["workflow"]),
            Picture("phone", paths["queues"], "dark", 390),
        )
        taken = []
        with served(url) as address:
            for picture in wanted:
                file = folder / f"dashboard-{picture.name}.png"
                with _page(browser, address, picture.scheme, picture.width) as page:
                    _take(page, address, picture.path, file, whole=False)
                taken.append(file)
        return taken


def take_all(folder: Path) -> list[Path]:
    """Take every page to be looked at: of a busy store, of an empty one, and of one that has gone away."""
    folder.mkdir(parents=True, exist_ok=True)
    taken = _take_away(folder)
    with tempfile.TemporaryDirectory() as place, chromium() as browser:
        stores = {"empty": f"sqlite:///{place}/empty.db", "busy": f"sqlite:///{place}/busy.db"}
        seen = fill(stores["busy"], series=True)
        for store, url in stores.items():
            with served(url) as address:
                for scheme, width in ((scheme, width) for scheme in SCHEMES for width in WIDTHS):
                    with _page(browser, address, scheme, width) as page:
                        for name, path in pages(seen if store == "busy" else None).items():
                            file = folder / f"{store}-{name}-{scheme}-{width}.png"
                            _take(page, address, path, file, whole=True)
                            taken.append(file)
    return taken


def _take_away(folder: Path) -> list[Path]:
    """Take every page after the store has gone, each opened anew; and the overview as it was open then."""
    taken = []
    with chromium() as browser, redis_server("redis") as server:
        fill(url := server.url(timeout=1), series=True)
        with served(url) as address:
            for scheme, width in (("light", 1280), ("dark", 390)):
                with _page(browser, address, scheme, width) as page:
                    page.get_by_role("main").get_by_role("link", name="letters").first.wait_for()
                    server.stop()
                    page.get_by_role("alert").filter(has_text="The store does not answer.").wait_for()
                    taken.append(folder / f"away-open-{scheme}-{width}.png")
                    page.screenshot(path=taken[-1], full_page=True)
                    for name, path in pages(None).items():
                        taken.append(folder / f"away-{name}-{scheme}-{width}.png")
                        page.goto(address.partition("#")[0] + path)
                        page.get_by_role("alert").filter(has_text="The store does not answer.").wait_for()
                        page.screenshot(path=taken[-1], full_page=True)
                    server.start()
    return taken


def main(arguments: Sequence[str]) -> int:
    taken = take_all(Path(arguments[0])) if arguments else take_for_docs(ASSETS)
    for file in taken:
        print(f"{file}: {file.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
