"""What watches the pages notices what goes wrong on them: a test of the tests."""

import pytest

from onward.cli.listening import bound
from onward.cli.web_server import WebAddress, serving
from tests.waiting import eventually
from tests.web.browser.serving import Served

TROUBLE = {
    "an error on the console": "<script>console.error('broken')</script>",
    "a warning on the console": "<script>console.warn('odd')</script>",
    "an error of the page": "<script>throw new Error('broken')</script>",
    "a dialog": "<script>alert('HOSTILE')</script>",
    "a file that is missing": "<img src=/missing.png>",
    "another host": "<img src=http://other.example/x.png>",
    "the content policy": "<meta http-equiv=content-security-policy content=\"img-src 'none'\"><img src=/icon>",
    "trusted types": (
        "<meta http-equiv=content-security-policy content=\"require-trusted-types-for 'script'\">"
        "<script>document.body.innerHTML = 'x'</script>"
    ),
}


@pytest.fixture
def site():
    """A server of small pages."""
    pages = {"/": "<p>fine</p>", "/icon": ""}

    async def app(scope, receive, send):
        if scope["type"] == "http":
            found = pages.get(scope["path"])
            headers = [(b"content-type", b"text/html; charset=utf-8")]
            await send({"type": "http.response.start", "status": 404 if found is None else 200, "headers": headers})
            body = f"<!doctype html><link rel=icon href=/icon><body>{found}".encode()
            await send({"type": "http.response.body", "body": body})

    listening = bound("127.0.0.1", 0)
    with serving(app, listening):
        site = Served(WebAddress("127.0.0.1", listening.getsockname()[1]), None)
        site.pages = pages
        yield site


@pytest.fixture
def context(visit, site):
    return visit(site)


@pytest.mark.parametrize("what", TROUBLE)
def test_trouble_is_noticed_unless_it_is_expected(context, site, what):
    site.pages["/trouble"] = TROUBLE[what]

    page = context.page()
    page.goto(site.url("trouble"))
    eventually(lambda: context.trouble or page.wait_for_timeout(20))  # which lets the browser tell

    with pytest.raises(AssertionError):
        context.check()
    context.expected.append(".")
    context.check()


def test_a_page_on_which_all_is_well_passes(context, site):
    page = context.page()
    page.goto(site.url())

    assert page.get_by_text("fine").is_visible()
    context.check()
