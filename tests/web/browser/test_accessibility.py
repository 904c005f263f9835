"""Every page for everybody: axe in both colour schemes and both widths, nothing that leaves a narrow screen."""

import pytest
from axe_playwright_python.base import AXE_SCRIPT
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
ASKED = {
    ("light", "desk"): EVERYTHING,
    ("dark", "desk"): LOOKS,
    ("dark", "phone"): EVERYTHING,
    ("light", "phone"): LOOKS,
}
PARTS = 3  # of the pages: a part is a test, so that it ends in time on a busy machine

# Of rows with the same elements of the same classes two are judged: the others look like them, and axe takes its time.
_MARKS_ALIKE = """() => {
  const shape = (node) => `${node.tagName}.${node.getAttribute('class')}[${[...node.children].map(shape)}]`;
  for (const list of document.querySelectorAll('main tbody, main ol, main ul')) {
    const found = new Map();
    for (const row of list.children) {
      const name = shape(row);
      found.set(name, (found.get(name) ?? 0) + 1);
      row.toggleAttribute('data-alike', found.get(name) > 2);
    }
  }
}"""
_RUNS = "(options) => axe.run({ exclude: ['[data-alike]'] }, options).then((found) => found.violations)"


def problems(page, rules=EVERYTHING):
    """What axe complains about, in words."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    page.evaluate(_MARKS_ALIKE)
    found = page.evaluate(_RUNS, {"runOnly": rules, "resultTypes": ["violations"]})
    return [f"{each['id']}: {each['help']}: {[node['html'][:200] for node in each['nodes'][:3]]}" for each in found]


def looks(page):
    """Let a page be light and dark, wide and narrow, one after the other; gives what is to be asked of each."""
    for (scheme, width), rules in ASKED.items():
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": WIDTHS[width], "height": 844})
        yield f"{scheme}, {width}", rules


@pytest.mark.promise("S147")
@pytest.mark.only_looks
@pytest.mark.parametrize("part", range(PARTS))
def test_no_page_has_a_violation(page, dashboard, seen, part):
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    every = paths(seen)
    chosen = [name for name in every if name == "job dead" or not name.startswith("job ")]

    found = {}
    for name in chosen[part::PARTS]:
        shown(page, dashboard, every[name])
        found |= {f"{name}: {look}": problems(page, rules) for look, rules in looks(page)}

    assert {name: told for name, told in found.items() if told} == {}


@pytest.mark.promise("S147")
def test_signing_in_and_empty_pages_have_none_either(visit, serve, tmp_path):
    dashboard = serve(f"sqlite:///{tmp_path / 'empty.db'}")
    watched = visit(dashboard)
    watched.expected.append("status of 401")
    page = watched.page()
    page.goto(dashboard.url())
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    found = {"sign in": problems(page)}

    dashboard.opened(page)
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    found |= {name: problems(shown(page, dashboard, path)) for name, path in PLAIN.items()}

    assert {name: told for name, told in found.items() if told} == {}


FLAWS = {"no name": "<img src='data:,'>", "pale": "<p style='color: #999; background: #fff'>pale</p>"}


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_flaw_is_noticed(visit, flaw):
    """A test of the tests: one rule of each kind, and rows that are alike."""
    page = visit().page()
    rows = "<tr><td>alike</td></tr>" * 5
    page.set_content(
        f"<html lang=en><title>x</title><main><h1>x</h1>{FLAWS[flaw]}<table><tbody>{rows}</tbody></table></main>"
    )

    told = {look: problems(page, rules) for look, rules in looks(page)}

    wherever = ["light, desk", "dark, desk", "dark, phone", "light, phone"]
    assert [look for look, found in told.items() if found] == (wherever if flaw == "pale" else wherever[::2])
    assert page.locator("[data-alike]").count() == 3


def test_a_phone_reaches_every_page_and_nothing_leaves_its_screen(visit, dashboard, seen):
    watched = visit(dashboard, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = dashboard.opened(watched.page())
    for name in ("Queues", "Dead letters", "Health"):
        page.get_by_role("button", name="Menu").tap()
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).tap()
        expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()

    wide = {}
    for name, path in paths(seen).items():
        shown(page, dashboard, path)
        wide[name] = page.evaluate("document.documentElement.scrollWidth")
    assert {name: width for name, width in wide.items() if width > 390} == {}
