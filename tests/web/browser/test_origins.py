"""Pages of others: no write from another origin, and no request to another host from ours."""

import json

import pytest
from playwright.sync_api import expect

from onward import State
from tests.web.browser.pages import shown

pytestmark = pytest.mark.only_looks

# Ports belong to an origin, not to a site: cookies of the dashboard are sent along from there.
SAME_SITE = "http://127.0.0.1:9/"
OTHER_SITE = "http://localhost:9/"

ATTACKS = {
    "a fetch without CORS": "fetch(URL, {method: 'POST', mode: 'no-cors', credentials: 'include', body: '{}'})",
    "a fetch as JSON": (
        "fetch(URL, {method: 'POST', credentials: 'include', body: '{}', headers: {'content-type': 'application/json'}})"
    ),
    "a beacon": "Promise.resolve(navigator.sendBeacon(URL, new Blob(['{}'], {type: 'text/plain'})))",
    "a form": (
        "new Promise((done) => { const form = document.createElement('form'); form.method = 'post'; form.action = URL;"
        "form.enctype = 'text/plain'; form.target = 'answers'; const field = document.createElement('input');"
        "field.name = '{\"reason\":\"'; field.value = '\"}'; form.append(field); document.body.append(form);"
        "document.querySelector('iframe').onload = done; form.submit(); })"
    ),
}


@pytest.mark.promise("S140")
@pytest.mark.parametrize("origin", [SAME_SITE, OTHER_SITE], ids=["same site", "other site"])
def test_another_origin_changes_nothing(page, watched, dashboard, seen, origin):
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    watched.expected.append(".")  # the browser tells what it refuses
    evil = watched.page()
    evil.route(
        f"{origin}**", lambda route: route.fulfill(body="<iframe name=answers></iframe>", content_type="text/html")
    )
    url = json.dumps(dashboard.url(f"api/v1/jobs/{seen.later}/cancel"))
    for name, attack in ATTACKS.items():
        evil.goto(origin)
        with evil.expect_request(lambda request: seen.later in request.url):
            evil.evaluate(f"() => {attack.replace('URL', url)}.catch(() => null)")
        assert dashboard.jobs.get(seen.later).state is State.SCHEDULED, name
    evil.close()

    assert dashboard.jobs.get(seen.later).state is State.SCHEDULED
    page.reload()
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()  # and is still signed in


@pytest.mark.promise("S140")
def test_no_page_of_others_can_frame_it(watched, dashboard, page):
    watched.expected.append(".")  # the browser tells what it refuses
    framing = watched.page()
    body = f"<iframe src={json.dumps(dashboard.url())}></iframe>"
    framing.route(f"{SAME_SITE}**", lambda route: route.fulfill(body=body, content_type="text/html"))
    framing.goto(SAME_SITE)

    assert [frame.url for frame in framing.frames[1:] if frame.url.startswith(dashboard.url())] == [] or (
        framing.frames[1].get_by_role("navigation").count() == 0
    )


@pytest.mark.promise("S151")
def test_no_request_leaves_for_another_host(page, watched, dashboard, seen):
    page.reload()
    for path in ("", "queues", "jobs", f"jobs/{seen.dead}", "dead", "workers", "schedules", "flows", "health", "audit"):
        shown(page, dashboard, path)

    assert len(watched.requests) > 20
    assert {url for url in watched.requests if not url.startswith(dashboard.url())} == set()
