"""Take the pictures of the dashboard that the documentation shows: a real browser, a busy store, both colour schemes.

    python -m tools.web_pictures            writes docs/assets/dashboard-*.png
    python -m tools.web_pictures FOLDER     every page in both schemes and both widths, empty and busy, to look at

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
from tools.busy_store import Seen, Shop, fill

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ASSETS = Path(__file__).parents[1] / "docs" / "assets"
WIDTHS = {1280: 800, 390: 844}
SCHEMES = ("light", "dark")


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
    page.screenshot(path=file, full_page=whole)


def take_for_docs(folder: Path) -> list[Path]:
    """Take the pictures of the documentation."""
    with tempfile.TemporaryDirectory() as place, chromium() as browser:
        url = f"sqlite:///{place}/shop.db"
        seen = fill(url, series=True)
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
    """Take every page, of a busy store and of an empty one, to be looked at."""
    folder.mkdir(parents=True, exist_ok=True)
    taken = []
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


def main(arguments: Sequence[str]) -> int:
    taken = take_all(Path(arguments[0])) if arguments else take_for_docs(ASSETS)
    for file in taken:
        print(f"{file}: {file.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
