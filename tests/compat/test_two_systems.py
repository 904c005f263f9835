"""Celery beside Onward: which tasks and schedules are whose."""

import sys
import warnings

import celery
import pytest

from onward import OptionError
from onward.compat.celery import Task, crontab, shared_task
from onward.compat.celery.choosing import VARIABLE
from onward.compat.celery.conf import SAID_ELSEWHERE
from onward.compat.celery.options import CeleryDifference


@pytest.fixture(autouse=True)
def chosen(monkeypatch):
    monkeypatch.setenv(VARIABLE, "mail.*, reports.weekly")


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.promise("S163")
def test_a_variable_says_which_tasks_are_onwards_and_the_others_stay_celerys(app, jobs, share):
    declare = shared_task if share else app.task

    @declare(name="mail.send")
    def send(x):
        return x + 1

    @declare(name="reports.daily")
    def daily(x):
        return x + 2

    result = send.delay(1)
    app.jobs.drain()

    assert isinstance(send, Task)
    assert result.get() == 2
    assert not isinstance(daily, Task)
    assert daily.apply((1,)).get() == 3  # on Celery's own application
    assert "reports.daily" not in app.jobs.names


@pytest.mark.promise("S165")
def test_an_entry_of_a_schedule_lives_where_its_task_does(app):
    app.task(name="mail.send")(lambda: None)
    app.conf.timezone = "Europe/Berlin"
    app.conf.beat_schedule = {
        "ours": {"task": "mail.send", "schedule": crontab(minute=5)},
        "theirs": {"task": "reports.daily", "schedule": crontab(minute=30, hour="7,19", day_of_week="mon")},
        "often": {"task": "reports.hourly", "schedule": 60},
    }

    theirs = app.celery.conf.beat_schedule

    assert [entry.name for entry in app.jobs.schedules.list()] == ["ours"]
    assert sorted(theirs) == ["often", "theirs"]
    assert theirs["theirs"]["schedule"] == celery.schedules.crontab(minute=30, hour="7,19", day_of_week="mon")
    assert app.celery.conf.timezone == "Europe/Berlin"


@pytest.mark.promise("S164")
def test_a_task_that_stays_with_celery_needs_it(app, monkeypatch):
    monkeypatch.setitem(sys.modules, "celery", None)

    with pytest.raises(OptionError, match=f"install celery, add the task to {VARIABLE}"):
        shared_task(name="reports.daily")(lambda: None)


@pytest.mark.promise("S164")
@pytest.mark.parametrize("name", sorted(SAID_ELSEWHERE))
def test_a_setting_that_counts_with_celery_alone_is_a_warning_if_nothing_is_left_there(app, monkeypatch, name):
    monkeypatch.delenv(VARIABLE)
    with pytest.warns(CeleryDifference, match=f"app.conf.{name} is for tasks that stay with Celery: \\w+"):
        app.conf.update({name: 7})

    monkeypatch.setenv(VARIABLE, "mail.*")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        app.conf.update({name: 8})

    assert app.conf[name] == 8
