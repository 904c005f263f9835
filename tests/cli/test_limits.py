"""`onward limit`: what may run, and changing it while workers run; and where else limits are shown."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from onward import Breaker, Limit, Throttle
from onward.backend import Claim
from onward.cli.exits import Exit
from onward.cli.limits import COLUMNS, in_short
from onward.cli.picture import Room, picture
from onward.cli.table import Table, measure
from onward.flow.limits import Bounds, rate_of
from onward.operate.limits import LimitRecord
from tests.cli.test_top import a_look, a_record, text

NOW = datetime.now(UTC)


@pytest.fixture
def shop(jobs):
    """A worker has declared limits of two jobs and of a queue."""
    if not jobs.backend.capabilities.lanes:
        pytest.skip("SQLite decides without lanes")
    return jobs


@pytest.fixture
def render(shop):
    @shop.job(limit=(Limit(running=5), Limit(running=2, by="tenant")))
    def render(tenant: str) -> None: ...

    shop.drain()
    render.enqueue("acme")
    shop.drain()
    return render


def a_limit(kind="job", name="render", **fields):
    plain = {
        "running": None,
        "rate": None,
        "declared": Bounds(),
        "chosen": Bounds(),
        "running_now": None if kind == "key" else 0,
        "tokens": None,
        "next_token_at": None,
        "is_shut": False,
        "shut_until": None,
    }
    return LimitRecord(kind=kind, name=name, **(plain | fields))


RATE = rate_of("100/min", 20)
LIMITS = [
    a_limit(running=5, running_now=5, declared=Bounds(running=5)),
    a_limit("key", running=2, declared=Bounds(running=9), chosen=Bounds(running=2)),
    a_limit(
        "queue", "mail", rate=RATE, tokens=-3, next_token_at=NOW + timedelta(hours=14.9), declared=Bounds(rate=RATE)
    ),
    a_limit(name="charge", is_shut=True, shut_until=datetime(2030, 1, 1, 12, tzinfo=UTC), running_now=1),
    a_limit(name="paused", is_shut=True, running=1, declared=Bounds(running=1)),
]


class TestInWords:
    def test_limits_of_a_job_and_of_its_keys_differ_however_long_its_name_is(self):
        name = "shop.orders.documents.tasks.render_all_invoices_of_a_month_again"
        limits = [a_limit(kind, name, rate=RATE, declared=Bounds(rate=RATE)) for kind in ("job", "key")]

        lines = ["".join(part for part, _ in line) for line in Table(COLUMNS, width=80).page(limits)]

        _, job, keys = lines
        assert job.startswith("shop.orders")
        assert keys.startswith("each key of shop.")

    def test_a_table_tells_what_runs_what_is_left_and_why_it_waits(self):
        lines = ["".join(part for part, _ in line) for line in Table(COLUMNS, width=None).page(LIMITS)]

        assert [line.split() for line in lines] == [
            ["LIMIT", "RUNNING", "RATE", "TOKENS", "WAITS", "ORIGIN"],
            ["render", "5", "of", "5", "code"],
            ["each", "key", "of", "render", "2", "each", "set;", "the", "code", "says", "9", "running"],
            [
                "queue",
                "mail",
                "0",
                "100/min,",
                "20",
                "at",
                "once",
                "-3",
                "of",
                "20",
                "next",
                "token",
                "in",
                "14",
                "h",
                "code",
            ],
            ["charge", "1", "shut", "until", "2030-01-01", "12:00:00Z"],
            ["paused", "0", "of", "1", "shut", "by", "hand", "code"],
        ]

    def test_in_one_cell(self):
        assert [in_short(limit) for limit in LIMITS] == [
            "5 of 5",
            "2 each",
            "0, 100/min, 20 at once, next token in 14 h",
            "1, shut until 2030-01-01 12:00:00Z",
            "0 of 1, shut by hand",
        ]

    @pytest.mark.parametrize("rows", [8, 16, 24, 30, 50])
    def test_top_shows_them_where_there_is_room(self, rows):
        look = a_look(running=[a_record(number) for number in range(50)])._replace(limits=LIMITS * 10)

        lines = text(picture(look, title="top", room=Room(100, rows)))

        assert len(lines) <= rows
        assert any(line.startswith("LIMIT") for line in lines) == (rows > 16)
        assert any(line.startswith("RUNNING") for line in lines) == (rows > 8)


class TestList:
    def test_limits_are_listed_with_what_is_used(self, onward, shop, render):
        shop.backend.claim(Claim(queues=("default",), owner="elsewhere"))
        people, data = onward("limit", "list"), onward("limit", "list", "--json").json

        heading, job, key = people.out.splitlines()
        assert heading.split() == ["LIMIT", "RUNNING", "RATE", "TOKENS", "WAITS", "ORIGIN"]
        assert job.split() == ["render", "0", "of", "5", "code"]
        assert key.split() == ["each", "key", "of", "render", "2", "each", "code"]
        assert [(each["kind"], each["name"], each["running"], each["running_now"]) for each in data] == [
            ("job", "render", 5, 0),
            ("key", "render", 2, None),
        ]
        assert data[0]["declared"] == {"running": 5, "rate": None}

    def test_a_rate_without_tokens_tells_when_the_next_one_comes(self, onward, shop):
        @shop.job(limit=Limit(rate="2/h"))
        def call() -> None: ...

        call.enqueue_many([()] * 3)
        shop.drain()

        (line,) = onward("limit", "list").out.splitlines()[1:]
        (data,) = onward("limit", "list", "--json").json

        assert line.split()[:5] == ["call", "0", "2/h", "0", "of"]
        assert "next token in 29 m" in line
        assert (data["tokens"], data["next_token_at"] is None) == (0, False)

    def test_what_a_handler_and_a_breaker_have_shut_is_told(self, onward, shop):
        @shop.job(limit=Limit(running=5))
        def fetch() -> None:
            raise Throttle(after=600)

        @shop.job(breaker=Breaker(failures=1, of=1, pause=600), max_retries=5)
        def charge() -> None:
            raise ConnectionError

        fetch.enqueue()
        charge.enqueue()
        shop.drain()

        lines = onward("limit", "list").out.splitlines()[1:]

        assert [line.split()[0] for line in lines] == ["charge", "fetch"]
        assert all("shut until 20" in line for line in lines)

    def test_a_store_without_limits_says_how_to_make_one(self, onward, shop):
        ran = onward("limit", "list")

        assert (ran.code, ran.out) == (0, "")
        assert "@jobs.job(limit=Limit(running=5))" in ran.err


class TestSteering:
    def test_a_limit_is_set_and_cleared(self, onward, shop, render):
        done = onward("limit", "set", "render", "--running", "1", "--rate", "100/min", "--burst", "5")
        listed = onward("limit", "list").out.splitlines()[1]
        cleared = onward("limit", "clear", "render", "--json")

        assert (done.code, done.err) == (0, "")
        assert done.out == "render: 1 running, 100/min, 5 at once (set; the code says 5 running)\n"
        assert "0 of 1" in listed
        (data,) = cleared.json
        assert (data["running"], data["rate"], data["set"]) == (5, None, {"running": None, "rate": None})

    def test_so_is_that_of_each_key(self, onward, shop, render):
        assert onward("limit", "set", "render", "--each-key", "--running", "7").out.startswith(
            "each key of render: 7 running"
        )
        assert [each.running for each in shop.limits.list()] == [5, 7]

    def test_so_is_that_of_a_queue_that_has_none(self, onward, shop):
        done = onward("limit", "set", "--queue", "mail", "--rate", "50/s")
        cleared = onward("limit", "clear", "--queue", "mail")

        assert (done.out, cleared.out) == ("queue mail: 50/s (set)\n", "queue mail: no limit\n")
        assert shop.limits.list() == []

    def test_a_limit_that_left_the_code_is_forgotten(self, onward, shop, render):
        forgotten = onward("limit", "forget", "render", "--each-key")

        assert forgotten.out == "each key of render: no limit\n"
        assert [(each.kind, each.name) for each in shop.limits.list()] == [("job", "render")]

    def test_a_job_is_shut_and_opened(self, onward, shop, render):
        shut = onward("limit", "shut", "render")
        render.enqueue("acme")

        assert shut.out == "render is shut: nothing of it starts until `onward limit open`\n"
        assert shop.drain() == 0
        assert "shut by hand" in onward("limit", "list").out
        assert onward("limit", "open", "render", "--json").json == [{"job": "render", "is_shut": False}]
        assert shop.drain() == 1

    @pytest.mark.parametrize(
        ("words", "code", "told"),
        [
            (["set", "rendr", "--running", "1"], Exit.NOTHING, "did you mean 'render'?"),
            (["set", "mail", "--running", "1"], Exit.NOTHING, "give it one in the code"),
            (["shut", "rendr"], Exit.NOTHING, "did you mean 'render'?"),
            (["shut", "render", "rendr"], Exit.NOTHING, "did you mean 'render'?"),
            (["open", "rendr"], Exit.NOTHING, "did you mean 'render'?"),
            (["clear", "rendr"], Exit.NOTHING, "did you mean 'render'?"),
            (["forget", "rendr"], Exit.NOTHING, "did you mean 'render'?"),
            (["forget", "render", "--queue", "mail"], Exit.USAGE, "name a job, or a queue"),
            (["clear", "--queue", "mail"], Exit.NOTHING, "queue 'mail' has no limit, so there is nothing to clear"),
            (["set", "render"], Exit.USAGE, "say --running N, how many at once, or --rate 100/min"),
            (["set", "--running", "1"], Exit.USAGE, "name a job, or a queue with --queue NAME"),
            (["set", "render", "--queue", "mail", "--running", "1"], Exit.USAGE, "name a job, or a queue"),
            (["set", "--queue", "mail", "--each-key", "--running", "1"], Exit.USAGE, "--each-key is for jobs"),
            (["set", "render", "--running", "0"], Exit.USAGE, "not a number of at least 1"),
            (["set", "render", "--rate", "10 per fortnight"], Exit.USAGE, "write it as '10/s', '100/min'"),
            (["set", "render", "--running", "1", "--burst", "5"], Exit.USAGE, "burst belongs to a rate"),
            (["shut"], Exit.USAGE, "required: JOB"),
            (["lst"], Exit.USAGE, "did you mean"),
        ],
    )
    def test_what_cannot_be_done_names_the_fix_and_changes_nothing(self, onward, shop, render, words, code, told):
        before = shop.limits.list()

        ran = onward("limit", *words)

        assert (ran.code, ran.out) == (code, "")
        assert told in ran.err
        assert len(ran.err.splitlines()) == 1
        assert shop.limits.list() == before


class TestElsewhere:
    def test_queues_are_listed_with_their_limits(self, onward, shop):
        shop.enqueue("x", queue="mail")
        shop.enqueue("x", queue="web")
        assert "LIMIT" not in onward("queue", "list").out

        shop.limits.set(queue="mail", running=2, rate="50/s")
        heading, mail, web, _ = onward("queue", "list").out.splitlines()
        data = {each["queue"]: each["limit"] for each in onward("queue", "list", "--json").json}

        assert heading.split()[-1] == "LIMIT"
        assert mail.endswith("0 of 2, 50/s")
        assert "50/s" not in web
        assert (data["mail"]["running"], data["web"]) == (2, None)

    def test_top_shows_them_too(self, onward, shop, render):
        ran = onward("top", "--once", "--interval", "0.1")
        (look,) = onward("top", "--once", "--interval", "0.1", "--json").json

        assert ["render", "0", "of", "5", "code"] in [line.split() for line in ran.out.splitlines()]
        assert [(each["kind"], each["running"]) for each in look["limits"]] == [("job", 5), ("key", 2)]

    def test_live_top_shows_a_change_as_it_comes(self, live, shop, render):
        screen = live("top", "--interval", "0.1", rows=40, columns=100)
        screen.wait_for("LIMIT", "0 of 5")

        shop.limits.set("render", running=3)
        screen.wait_for("0 of 3", gone=["0 of 5"])
        shop.limits.shut("render")
        screen.wait_for("shut by hand")

        screen.type("q")
        screen.end()
        assert screen.code == 0

    @pytest.mark.parametrize("words", [("limit", "list"), ("queue", "list"), ("top", "--once", "--interval", "0.1")])
    def test_lines_are_cut_to_the_width_of_the_terminal(self, terminal, shop, render, words):
        shop.limits.set(queue="mail", running=1000, rate="1000/day", burst=1)
        shop.limits.set("render", rate="1000/day", burst=1)
        shop.limits.shut("render")
        shop.enqueue("x", queue="mail")

        shown = re.sub(r"\x1b\[[0-9;]*m", "", terminal(*words, columns=80).out)

        assert "LIMIT" in shown
        assert max(map(measure, shown.splitlines())) <= 80

    def test_a_look_of_top_reads_no_more_than_fifty(self, onward, shop):
        for number in range(60):
            shop.limits.set(queue=f"q{number:02}", running=1)

        (look,) = onward("top", "--once", "--interval", "0.1", "--json").json

        assert [each["name"] for each in look["limits"]] == [f"q{number:02}" for number in range(50)]

    def test_a_job_is_shown_with_its_lane(self, onward, shop, render):
        handle = render.enqueue("acme")

        assert "lane      render/acme" in onward("job", "show", handle.id).out
        assert onward("job", "show", handle.id, "--json").json[0]["lane"] == "render/acme"
