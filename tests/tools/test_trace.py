"""The trace of one job: it runs, it prints its totals, and it compares them with those on the page."""

import json

from tools import trace


def test_the_road_of_a_job_begins_at_enqueue_ends_at_the_report_and_is_totalled(capsys):
    assert trace.main([]) == 0

    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "client/bound_job.py"
    assert trace._LAST_STOP in printed
    totals = trace._QUOTE.fullmatch(printed[-1])
    assert int(totals[2]) <= trace.MAX_FUNCTIONS


def test_the_trace_is_printed_as_json(capsys, monkeypatch):
    monkeypatch.setattr(trace, "record", _a_road)

    assert trace.main(["--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "files": 2,
        "functions": 3,
        "road": [
            {"file": "client/client.py", "name": "Client.enqueue", "calls": 1},
            {"file": "worker/pump.py", "name": "Pump.run", "calls": 2},
            {"file": "client/client.py", "name": "Client.count", "calls": 1},
        ],
    }


def test_a_page_with_other_totals_or_none_is_told(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(trace, "record", _a_road)
    page = tmp_path / trace.PAGE
    page.parent.mkdir()

    page.write_text("It enters 2 files and 3 functions.")
    assert trace.main(["check"], root=tmp_path) == 0
    page.write_text("It enters 2 files and 4 functions.")
    assert trace.main(["check"], root=tmp_path) == 1
    page.write_text("It enters few.")
    assert trace.main(["check"], root=tmp_path) == 1
    assert capsys.readouterr().err.splitlines() == [
        "docs/tour.md: quotes 2 files, 4 functions; the trace has 2 files, 3 functions",
        "docs/tour.md: quotes no totals; they are 2 files, 3 functions",
    ]


def test_threads_of_an_idle_worker_and_what_follows_the_report_do_not_count():
    caller, pump, handler, wake = range(4)
    entered = [
        trace.Entered(caller, _code("client/client.py", "enqueue")),
        trace.Entered(wake, _code("worker/worker.py", "waking")),
        trace.Entered(pump, _code("worker/pump.py", "claim")),
        trace.Entered(handler, _code("attempt/attempt.py", "run")),
        trace.Entered(pump, _code("attempt/report.py", "settled")),
        trace.Entered(pump, _code("worker/pump.py", "park")),
        trace.Entered(handler, _code("worker/handler_threads.py", "wait")),
    ]

    road = trace.road_of(entered, caller=caller, handler=handler)

    assert [each.name for each in road.functions] == ["enqueue", "claim", "run", "settled", "wait"]
    assert road.totals == "5 files, 5 functions"


def _code(file, name):
    scope = {}
    exec(compile(f"def {name}(): ...", trace._SOURCE + file, "exec"), scope)
    return scope[name].__code__


def _a_road():
    return trace.Road(
        (
            trace.Function("client/client.py", "Client.enqueue", 1),
            trace.Function("worker/pump.py", "Pump.run", 2),
            trace.Function("client/client.py", "Client.count", 1),
        )
    )
