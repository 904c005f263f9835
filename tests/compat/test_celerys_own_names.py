"""Every name that Celery itself knows is known here, or refused with what to write instead.  The lists are Celery's."""

import importlib
import inspect
import re
from operator import attrgetter

import celery
import celery.canvas
import celery.exceptions
import celery.signals
import celery.states
import pytest
from celery.app.defaults import NAMESPACES, flatten
from celery.app.task import Task as CelerysTask
from celery.result import AsyncResult as CelerysResult
from celery.result import GroupResult as CelerysGroupResult
from kombu.messaging import Producer

import onward.telemetry
from onward import OptionError
from onward.compat.celery import chain, group
from onward.compat.celery.conf import OF_CELERY, REFUSED_SETTINGS, SETTINGS
from onward.compat.celery.options import CALL_OPTIONS, REFUSED_CALL_OPTIONS, REFUSED_TASK_OPTIONS, TASK_OPTIONS
from onward.compat.celery.result import GroupResult

# What Celery keeps there for itself: no program that was looked at names them.
INSIDE_OF_TASKS = {"app", "from_config", "on_bound", "request", "request_stack", "annotate", "add_around"}
OF_CANVASES = {"apply", "apply_async", "delay", "freeze", "get", "items", "keys", "link", "link_error", "on_error"} | {
    "replace",
    "set",
    "set_immutable",
    "skew",
    "stamp",
    "stamp_links",
    "tasks",
    "update",
}
INSIDE_OF_CALLS = {
    "self",
    "name",
    "body",
    "args",
    "kwargs",
    "options",
    "properties",
    "task_type",
    "replaced_task_nesting",
}


def parameters(*functions):
    return {name for function in functions for name in inspect.signature(function).parameters}


def test_every_option_of_a_task():
    attributes = {name for name in list(vars(CelerysTask)) if not callable(inspect.getattr_static(CelerysTask, name))}
    known = attributes | parameters(celery.Celery._task_from_fun) - {"self", "fun", "options"}

    ours = TASK_OPTIONS.keys() | REFUSED_TASK_OPTIONS.keys() | INSIDE_OF_TASKS
    assert {name for name in known if not name.startswith("_")} - ours == set()


def test_every_option_of_a_call():
    known = parameters(CelerysTask.apply_async, celery.Celery.send_task, Producer.publish)

    assert known - (CALL_OPTIONS.keys() | REFUSED_CALL_OPTIONS.keys() | INSIDE_OF_CALLS) == set()


def test_an_option_of_a_call_at_a_task_is_told_where_it_belongs(app):
    for option in ("task_id", "countdown", "eta", "headers"):
        with pytest.raises(OptionError, match=f"{option} has no meaning here: .*(call|calls)"):
            app.task(**{option: object()})(lambda: None)


def test_every_setting():
    known = {name for name, _ in flatten(NAMESPACES) if not name.startswith(OF_CELERY)}

    assert known - (SETTINGS.keys() | REFUSED_SETTINGS.keys()) == set()


@pytest.mark.parametrize("name", sorted(REFUSED_SETTINGS))
@pytest.mark.promise("S164")
def test_a_refused_setting_names_the_fix(app, name):
    with pytest.raises(OptionError, match=f"app.conf.{name} has no meaning here: \\w+"):
        app.conf[name] = object()


@pytest.mark.promise("S164")
def test_every_argument_of_an_application():
    inside = {"self", "kwargs", "main", "jobs"}
    taken = {"broker", "backend", "include", "config_source", "namespace", "set_as_current"}
    from onward.compat.celery import Celery

    for name in sorted(parameters(celery.Celery.__init__) - inside - taken):
        with pytest.raises(OptionError, match=f"takes no '{name}' here: \\w+"):
            Celery("shop", **{name: object()})


def told(thing, name):
    """What reading an attribute tells: nothing, if it is there."""
    try:
        getattr(thing, name)
    except OptionError as refused:
        return str(refused)
    except AttributeError:
        return None
    return ""


def public(kind, *, without):
    return {name for name in dir(kind) if not name.startswith("_") and not name.endswith(without)}


@pytest.mark.promise("S164")
def test_what_programs_read_of_an_application_a_task_and_a_result_is_there_or_told(app):
    task = app.task(name="probe", bind=True)(lambda self: None)
    looked_at = {
        app: public(celery.Celery, without=("_cls", "_fixups", "_producer", "_pool", "_connection", "_or_acquire"))
        - {
            "IS_WINDOWS",
            "IS_macOS",
            "SYSTEM",
            "Pickler",
            "WorkController",
            "amqp",
            "annotations",
            "backend",
            "bugreport",
        }
        - {
            "create_task_cls",
            "either",
            "gen_task_name",
            "loader",
            "oid",
            "prepare_config",
            "select_queues",
            "type_checker",
        }
        - {"connection_for_read", "connection_for_write", "setup_security", "subclass_with_self", "thread_oid"}
        - {"uses_utc_timezone"},
        task: {
            "AsyncResult",
            "MaxRetriesExceededError",
            "OperationalError",
            "apply",
            "apply_async",
            "backend",
            "chunks",
        }
        | {
            "add_to_chord",
            "after_return",
            "default_retry_delay",
            "delay",
            "ignore_result",
            "map",
            "max_retries",
            "name",
        }
        | {"on_failure", "on_success", "replace", "request", "retry", "run", "s", "send_event", "si", "signature"}
        | {"starmap", "subtask", "update_state"},
        app.AsyncResult("x"): public(CelerysResult, without=("_headers",)) - {"app", "id", "parent"},
        GroupResult("x", []): public(CelerysGroupResult, without=("_headers",)) - {"id", "parent", "results"},
        group(): public(celery.canvas.group, without=("_headers",)) & OF_CANVASES,
        chain(task.s()): public(celery.canvas._chain, without=("_headers",)) & OF_CANVASES,
    }

    for thing, names in looked_at.items():
        assert {name for name in names if told(thing, name) is None} == set(), thing


@pytest.mark.promise("S164")
def test_what_a_request_does_not_have_is_told_with_what_does(app, jobs):
    told_by = {}

    @app.task(name="probe", bind=True)
    def probe(self):
        for name in ("hostname", "headers", "root_id", "eta", "timelimit"):
            told_by[name] = told(self.request, name)
        return self.run.__self__ is self

    result = probe.delay()
    jobs.drain()

    assert result.wait() is True
    assert all(
        text.startswith("self.request has no") and "self." in text.partition(": write ")[2] for text in told_by.values()
    )


@pytest.mark.promise("S164")
def test_every_signal_is_told_with_what_to_write_instead():
    module = importlib.import_module("onward.compat.celery.signals")

    for name in celery.signals.__all__:
        with pytest.raises(OptionError, match=f"no signal '{name}' here: \\w+") as refused:
            getattr(module, name)
        for event in re.findall(r"\bJob\w+", str(refused.value)):
            assert issubclass(getattr(onward.telemetry, event), onward.telemetry.JobEvent)
    assert not hasattr(module, "no_signal")


def test_states_are_those_of_celery():
    ours = importlib.import_module("onward.compat.celery.states")

    assert {name: getattr(celery.states, name) for name in ours.__all__ if isinstance(getattr(ours, name), str)} == {
        name: getattr(ours, name) for name in ours.__all__ if isinstance(getattr(ours, name), str)
    }
    for name in ("READY_STATES", "EXCEPTION_STATES", "PROPAGATE_STATES"):
        assert getattr(ours, name) == getattr(celery.states, name)


@pytest.mark.promise("S164")
@pytest.mark.parametrize("name", ["exceptions", "result", "schedules"])
def test_every_name_of_a_module_is_there_or_told(name):
    ours, theirs = (importlib.import_module(f"{package}.{name}") for package in ("onward.compat.celery", "celery"))

    assert {each for each in theirs.__all__ if told(ours, each) is None} == set()
    assert not hasattr(ours, "no_such_name")


@pytest.mark.promise("S164")
def test_what_waits_inside_of_a_task_is_told():
    with pytest.raises(OptionError, match="a chain or a chord needs no waiting"):
        from onward.compat.celery.result import allow_join_result  # noqa: F401


def test_what_is_told_to_be_caught_can_be():
    module = importlib.import_module("onward.compat.celery.exceptions")
    told_of = {told(module, each) or "" for each in celery.exceptions.__all__}
    named = {name for text in told_of for name in re.findall(r"onward\.(?:errors\.)?[A-Z]\w+", text)}

    assert len(named) == 5
    assert all(issubclass(attrgetter(name.removeprefix("onward."))(onward), Exception) for name in named)
