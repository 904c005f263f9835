"""Asking a dashboard without a server, and a shop to ask about."""

import json
from types import SimpleNamespace
from urllib.parse import quote, urlencode

from onward import Secret
from onward.flow.limits import Limit
from onward.web import User, WebRequest

PEOPLE = {
    "viewer-token-0123456789": User("vera", "viewer"),
    "operator-token-0123456789": User("olaf", "operator"),
    "admin-token-0123456789": User("anna", "admin"),
    "mail-token-0123456789": User("mia", "operator", ["mail"]),
    "mail-admin-token-0123456789": User("max", "admin", ["mail"]),
}
TOKENS = {user.name: token for token, user in PEOPLE.items()}
CANARY = "hunter2-canary-5f1c"


class Client:
    """``ask.get("jobs", filter="state:dead")``, ``ask.post("jobs/…/retry", {})``: as a program with a token."""

    def __init__(self, dashboard, who="anna"):
        self.dashboard = dashboard
        self.who = who

    def as_(self, who):
        return Client(self.dashboard, who)

    def send(self, method, path, body=b"", query="", **headers):
        sent = {"host": "shop.example", "accept": "application/json"}
        if self.who is not None:
            sent["authorization"] = f"Bearer {TOKENS[self.who]}"
        sent |= {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
        for name in [name for name, value in headers.items() if value is None]:
            sent.pop(name.replace("_", "-"), None)
        return self.dashboard.respond(
            WebRequest(
                method=method, mount="", path=path, query_string=query, headers=sent, body=body, peer="192.0.2.7"
            )
        )

    def get(self, path, status=200, **query):
        response = self.send("GET", f"api/v1/{path}", query=urlencode(query))
        assert response.status == status, response.body
        return json.loads(response.body)

    def post(self, path, body=None, status=200):
        response = self.send("POST", f"api/v1/{path}", json.dumps(body or {}).encode(), content_type="application/json")
        assert response.status == status, response.body
        if isinstance(response.body, bytes):
            return json.loads(response.body)
        return [json.loads(line) for line in response.body]


def fill(jobs):
    """Enqueue jobs that come to every state, a flow and a schedule; run what can be run."""

    @jobs.job(queue="mail", max_retries=0)
    def send(user_id: int, note: str = "", api_key: Secret[str] | None = None) -> None:
        if user_id < 0:
            raise ValueError(f"no user {user_id}")

    @jobs.job(queue="reports", max_retries=3, limit=Limit(running=5))
    def report(day: str) -> dict:
        if day == "never":
            raise RuntimeError("no such day")
        return {"day": day}

    @jobs.schedule("0 9 * * *", args={"day": "daily"}, name="morning")
    @jobs.job(queue="reports", name="daily_report")
    def daily_report(day: str = "") -> None: ...

    dead = [send.enqueue(-number, api_key=Secret(CANARY)).id for number in (1, 2, 3)]
    done = report.enqueue("monday").id
    failing = report.enqueue("never").id
    jobs.drain()
    later = send.using(delay="1h").enqueue(1, note="later").id
    due = send.enqueue(2, note="due").id
    cancelled = report.enqueue("tuesday").id
    jobs.cancel(cancelled)
    flow = jobs.flow("import")
    first = flow.add(report, "one")
    flow.map(report, [report.call("two"), report.call("three")], after=first)
    return SimpleNamespace(
        jobs=jobs,
        send=send,
        report=report,
        dead=dead,
        done=done,
        failing=failing,
        later=later,
        due=due,
        cancelled=cancelled,
        flow=flow.enqueue().id,
    )


def every_get(shop):
    """The paths of all routes that only look, filled in."""
    group = shop.jobs.dead_letters.groups()[0].fingerprint
    return [
        *("session", "pulse", "series", "queues", "queues/mail", "queues/reports", "jobs", "groups", "workers"),
        *("schedules", "schedules/morning", "flows", f"flows/{shop.flow}", "limits", "health", "audit", "openapi.json"),
        *(f"jobs/{job_id}" for job_id in (*shop.dead, shop.done, shop.failing, shop.later, shop.due, shop.cancelled)),
        *(f"jobs/{shop.dead[0]}/why", f"groups/{quote(group)}"),
    ]
