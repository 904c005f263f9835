"""`beat_schedule` on Onward's schedules, and `onward schedule import celery`."""

import json
import sys
from datetime import timedelta

import celery
import celery.schedules
import pytest

from onward import InvalidSchedule, Onward, OptionError
from onward.cli import main
from onward.cli.exits import Exit
from onward.compat.celery.schedules import beat_entries, crontab, schedule, solar


@pytest.mark.parametrize(
    ("fields", "expression"),
    [
        ({}, "* * * * *"),
        ({"minute": 0, "hour": "*/3"}, "0 */3 * * *"),
        ({"minute": "30", "hour": [7, 19], "day_of_week": "monday-friday"}, "30 7,19 * * mon-fri"),
        ({"minute": 0, "hour": 0, "day_of_month": "1, 15"}, "0 0 1,15 * *"),
        ({"minute": 5, "hour": 4, "month_of_year": {1, 12}, "day_of_week": "sun"}, "5 4 * 1,12 sun"),
    ],
)
def test_a_crontab_is_a_cron_expression_also_that_of_celery_itself(fields, expression):
    (theirs,) = beat_entries({"x": {"task": "t", "schedule": celery.schedules.crontab(**fields)}})

    assert str(crontab(**fields)) == expression
    assert len(theirs.expression.split()) == 5
    assert theirs.expression == expression


@pytest.mark.parametrize("period", [30, 30.0, timedelta(seconds=30), celery.schedules.schedule(30), schedule(30)])
def test_a_period_is_an_expression(period):
    (entry,) = beat_entries({"x": {"task": "t", "schedule": period}})

    assert entry.expression == "@every 30s"


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: crontab(day_of_month=1, day_of_week="mon"), InvalidSchedule, "restrict one of them"),
        (lambda: crontab(minute=61), InvalidSchedule, "minute"),
        (lambda: crontab(nowfun=None), OptionError, "timezone"),
        (lambda: crontab(minute=object()), InvalidSchedule, "a number, text or a set"),
        (lambda: solar("sunset", 1, 2), OptionError, "at="),
        (lambda: beat_entries([]), InvalidSchedule, "a table"),
        (lambda: beat_entries({"x": {"task": "t"}}), InvalidSchedule, "no 'schedule'"),
        (lambda: beat_entries({"x": {"task": "t", "schedule": 1, "argz": ()}}), InvalidSchedule, "did you mean 'args'"),
        (lambda: beat_entries({"x": {"task": "t", "schedule": object()}}), InvalidSchedule, "use crontab"),
    ],
)
@pytest.mark.promise("S164")
def test_what_cannot_be_scheduled_names_the_fix(make, kind, text):
    with pytest.raises(kind, match=text):
        make()


@pytest.mark.promise("S165")
def test_entries_are_declared_with_the_jobs_and_run_at_their_ticks(app, clock):
    seen = []

    @app.task(name="report")
    def report(customer, pages=1):
        seen.append((customer, pages))

    app.conf.timezone = "Europe/Berlin"
    app.conf.beat_schedule = {
        "nightly": {
            "task": "report",
            "schedule": crontab(hour=2, minute=30),
            "args": ("acme",),
            "kwargs": {"pages": 3},
            "options": {"queue": "reports"},
        }
    }
    app.add_periodic_task(60, report.s("often"), name="minutely")
    jobs = app.jobs

    nightly, minutely = sorted(jobs.schedules.list(), key=lambda each: each.name, reverse=True)
    assert (nightly.cron, nightly.tz, nightly.queue, nightly.overlap) == (
        "30 2 * * *",
        "Europe/Berlin",
        "reports",
        "allow",
    )
    assert minutely.cron == "@every 60s"
    jobs.schedules.tick()
    clock.advance(120)
    jobs.schedules.tick()
    jobs.drain()
    assert ("often", 1) in seen


def test_an_entry_whose_task_is_not_declared_is_refused(app):
    app.conf.beat_schedule = {"x": {"task": "nowhere", "schedule": 60}}

    with pytest.raises(InvalidSchedule, match="import the module that declares it"):
        _ = app.jobs


class TestImport:
    @pytest.fixture(autouse=True)
    def fresh_modules(self):
        yield
        self.forget_modules()

    def forget_modules(self):
        """Let the next command import them again, as another process would."""
        for name in ("imported_celery", "imported_jobs"):
            sys.modules.pop(name, None)

    @pytest.fixture
    def shop(self, tmp_path, monkeypatch):
        """A program with Celery's own application beside one of Onward's."""
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setenv("ONWARD_URL", f"sqlite:///{tmp_path}/jobs.db?durability=relaxed")
        (tmp_path / "imported_celery.py").write_text(
            "from celery import Celery\n"
            "from celery.schedules import crontab\n"
            "app = Celery('shop')\n"
            "app.conf.timezone = 'Europe/Berlin'\n"
            "app.conf.beat_schedule = {\n"
            "  'nightly': {'task': 'report', 'schedule': crontab(hour=2, minute=30), 'args': ('acme',)},\n"
            "  'both': {'task': 'report', 'schedule': crontab(day_of_month=1, day_of_week='mon')},\n"
            "}\n"
        )
        (tmp_path / "imported_jobs.py").write_text(
            "from onward import Onward\njobs = Onward()\n@jobs.job\ndef report(customer: str) -> None: ...\n"
        )
        return tmp_path

    @pytest.mark.promise("S165")
    def test_entries_are_shown_and_made_schedules_of_jobs(self, shop, capsys):
        shown = main(["schedule", "import", "celery", "imported_celery:app", "--json"])
        nightly, both = map(json.loads, capsys.readouterr().out.splitlines())
        words = ["schedule", "import", "celery", "imported_celery:app", "--app", "imported_jobs:jobs"]
        dry, dry_told = main([*words, "--dry-run"]), capsys.readouterr()
        self.forget_modules()
        made, made_told = main([*words, "--by", "ann", "--reason", "the move"]), capsys.readouterr()

        assert (shown, dry, made) == (1, 1, 1)  # one of them cannot be
        assert (nightly["cron"], nightly["tz"], nightly["args"]) == ("30 2 * * *", "Europe/Berlin", ["acme"])
        assert "restrict one of them" in both["problem"]
        assert "1 schedule would be made; nothing was" in dry_told.err
        assert "1 schedule made" in made_told.err
        with Onward() as jobs:
            (schedule,), (entry,) = jobs.schedules.list(), jobs.audit()
        assert (entry.act, entry.who, entry.detail) == ("create-schedule", "ann", "the move")
        assert (schedule.name, schedule.job, schedule.arguments) == ("nightly", "report", {"customer": "acme"})

    def test_they_can_be_printed_as_code(self, shop, capsys):
        main(["schedule", "import", "celery", "imported_celery:app", "--code"])

        line, problem = capsys.readouterr().out.splitlines()
        assert line == "@jobs.schedule('30 2 * * *', name='nightly', tz='Europe/Berlin', args=['acme'])  # report"
        assert problem.startswith("# both: ")

    def test_what_is_no_application_of_celery_is_a_wrong_configuration(self, shop, capsys):
        code = main(["schedule", "import", "celery", "imported_jobs:jobs"])

        assert code == Exit.CONFIG
        assert "name an application of Celery's" in capsys.readouterr().err
