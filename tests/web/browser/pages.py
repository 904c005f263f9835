"""Every page there is, by a name: for tests that look at all of them."""

from playwright.sync_api import expect

PLAIN = {
    "overview": "",
    "queues": "queues",
    "jobs": "jobs",
    "dead": "dead",
    "workers": "workers",
    "schedules": "schedules",
    "flows": "flows",
    "limits": "limits",
    "health": "health",
    "audit": "audit",
}


def paths(seen):
    """The addresses of all pages of the busy store."""
    return {
        **PLAIN,
        "queue": "queues/letters",
        "group": f"dead/{seen.group}",
        "schedule": "schedules/nightly-stock",
        "flow": f"flows/{seen.flow}",
        **{f"job {name}": f"jobs/{job}" for name, job in seen._asdict().items() if name not in ("group", "flow")},
    }


def shown(page, dashboard, path):
    """Go to another page and wait until its content is there: no grey bar is left."""
    dashboard.go(page, path)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_role("status", name="Loading")).to_have_count(0)
    return page
