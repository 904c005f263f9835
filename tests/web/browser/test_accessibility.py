"""Every page for everybody: axe in both colour schemes and both widths, nothing that leaves a narrow screen."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.web.browser.pages import PLAIN, paths, shown

WIDTHS = {"phone": 390, "desk": 1280}
EVERYTHING = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
# What depends on colours and widths.  The rest is the same in all four: it is asked in two of them.
LOOKS = {
    "type": "rule",
    "values": [
        "color-contrast",
        "link-in-text-block",
        "target-size",
        "scrollable-region-focusable",
        "css-orientation-lock",
    ],
}


@pytest.fixture(scope="module")
def axe():
    return Axe()


def problems(axe, page, rules=EVERYTHING):
    """What axe complains about, in words."""
    found = axe.run(page, options={"runOnly": rules, "resultTypes": ["violations"]}).response["violations"]
    return [f"{each['id']}: {each['help']}: {[node['html'][:200] for node in each['nodes'][:3]]}" for each in found]


@pytest.mark.promise("S147")
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_violation(visit, dashboard, seen, axe, scheme, width):
    watched = visit(dashboard, color_scheme=scheme, viewport={"width": WIDTHS[width], "height": 844})
    page = dashboard.opened(watched.page())
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    every = paths(seen)
    chosen = {name: path for name, path in every.items() if name in PLAIN or name in ("queue", "flow", "job dead")}

    rules = EVERYTHING if (scheme, width) in (("light", "desk"), ("dark", "phone")) else LOOKS
    found = {name: problems(axe, shown(page, dashboard, path), rules) for name, path in chosen.items()}

    assert {name: told for name, told in found.items() if told} == {}


@pytest.mark.promise("S147")
def test_signing_in_and_empty_pages_have_none_either(visit, serve, tmp_path, axe):
    dashboard = serve(f"sqlite:///{tmp_path / 'empty.db'}")
    watched = visit(dashboard)
    watched.expected.append("status of 401")
    page = watched.page()
    page.goto(dashboard.url())
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    found = {"sign in": problems(axe, page)}

    dashboard.opened(page)
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    found |= {name: problems(axe, shown(page, dashboard, path)) for name, path in PLAIN.items()}

    assert {name: told for name, told in found.items() if told} == {}


def test_nothing_leaves_a_narrow_screen(visit, dashboard, seen):
    watched = visit(dashboard, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = dashboard.opened(watched.page())
    expect(page.get_by_role("heading", level=1)).to_be_visible()

    wide = {}
    for name, path in paths(seen).items():
        shown(page, dashboard, path)
        wide[name] = page.evaluate("document.documentElement.scrollWidth")
    assert {name: width for name, width in wide.items() if width > 390} == {}


def test_a_phone_reaches_every_page(visit, dashboard):
    watched = visit(dashboard, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = dashboard.opened(watched.page())
    for name in ("Queues", "Dead letters", "Health"):
        page.get_by_role("button", name="Menu").tap()
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).tap()
        expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()
