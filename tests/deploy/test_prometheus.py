"""The rules and the dashboard, read by Prometheus itself: it scrapes a real worker and answers every panel."""

import json
import math
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from onward.telemetry import families
from onward.telemetry.counters import SERIES, CounterTable
from onward.telemetry.exposition import exposition, of_numbers
from tests.deploy.prometheus import prometheus_server, promtool
from tests.servers.engines import ENGINES
from tests.supervisor.fleets import Fleet, Listening, Shop
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "rules.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "onward.json"
EXPECTED = Path(__file__).with_name("rules_test.yml")

FAMILIES = {family.name: family for group in families.FAMILIES.values() for family in group}

pytestmark = pytest.mark.xdist_group("prometheus")


def expressions() -> Iterator[str]:
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            yield target["expr"]


@pytest.mark.promise("S153")
def test_the_rules_are_valid():
    code, said = promtool("check", "rules", RULES)

    assert code == 0, said
    assert "8 rules found" in said


@pytest.mark.promise("S153")
def test_every_alert_fires_and_stays_quiet_as_told():
    code, said = promtool("test", "rules", EXPECTED)

    assert code == 0, said
    alerts = re.findall(r"alert: (\w+)", RULES.read_text())
    told = EXPECTED.read_text()
    assert len(alerts) == 8
    for alert in alerts:
        assert f"{{eval_time: 25m, alertname: {alert}}}" in told  # stays quiet
        assert re.search(rf"alertname: {alert}\n +exp_alerts:", told)  # fires


@pytest.mark.promise("S153")
def test_every_metric_of_the_rules_and_of_the_dashboard_exists():
    used = set(re.findall(r"\bonward_[a-z_]+", RULES.read_text()))
    used |= {name for expression in expressions() for name in re.findall(r"\bonward_[a-z_]+", expression)}

    assert {re.sub(r"_seconds_(bucket|sum|count)$", "_seconds", name) for name in used} <= FAMILIES.keys()
    assert len(used) > 15


@pytest.mark.promise("S153")
def test_every_alert_names_a_command_that_there_is():
    commands = set(re.findall(r"^##+ onward (.+)$", (ROOT / "docs/reference/cli.md").read_text(), re.MULTILINE))
    for rule in RULES.read_text().split("- alert: ")[1:]:
        typed = [" ".join(words.split()) for words in re.findall(r"`onward ([^`]+)`", rule)]
        assert typed, rule
        for words in typed:
            assert any(words == command or words.startswith(f"{command} ") for command in commands), words


@pytest.mark.promise("S152")
def test_the_text_is_valid_whatever_queues_and_jobs_are_called():
    table = CounterTable.anonymous()
    hostile = ['"', "\\", "a\nb", '"} 1\nonward_store_up 0\n#', "{}", "\r\t\0", "☃", " ", "\ud800", "x" * 150]
    for number in range(SERIES + 50):
        pair = (hostile[number % len(hostile)], f"{hostile[number // len(hostile) % len(hostile)]}{number}")
        table.add("jobs_fetched", pair)
        table.add_successes(pair, [number])
        table.add_first_deliveries(pair, [number**3])

    code, said = promtool("check", "metrics", given=exposition(of_numbers(table.numbers())))
    assert code == 0, said


@pytest.fixture(scope="module")
def scraped(tmp_path_factory):
    """A worker that runs jobs, and a Prometheus that scrapes it: the shop, the worker's address, the server."""
    folder = tmp_path_factory.mktemp("scraped")
    with ExitStack() as stack:
        served = stack.enter_context(ENGINES["sqlite"].server())
        shop = Shop(folder, ENGINES["sqlite"].store(served, folder))
        stack.callback(shop.close)
        with (folder / "shop.py").open("a") as file:
            file.write(
                "\n@jobs.job(max_retries=0)\ndef fail() -> None:\n    plain.enqueue(1)\n    raise RuntimeError\n"
            )
        fleet = Fleet(shop, "--listen", "127.0.0.1:0")
        stack.callback(fleet.kill)
        listening = Listening(fleet)
        (folder / "server").mkdir()
        target = f"127.0.0.1:{listening.port}"
        yield shop, listening, stack.enter_context(prometheus_server(folder / "server", target, RULES))


@pytest.mark.promise("S152")
def test_what_a_worker_answers_is_valid(scraped):
    _, listening, _ = scraped

    code, said = promtool("check", "metrics", given=listening.get("/metrics")[1])
    assert (code, said) == (0, "")


@pytest.mark.promise("S153")
def test_prometheus_scrapes_a_worker_and_answers_every_panel(scraped):
    shop, _, server = scraped
    shop.plain.using(queue="third", delay=3600).enqueue()  # so that a queue holds something
    unanswered = set(expressions())

    def answered():
        shop.fail.enqueue()
        for expression in list(unanswered):
            if any(not math.isnan(value) for _, value in server.ask(expression)):
                unanswered.discard(expression)
        return not unanswered

    eventually(answered, what=lambda: f"nothing answers {unanswered}", every=0.2)

    assert [labels for labels, value in server.ask("onward_store_up") if value == 1]
    (each,) = server.ask('onward_jobs_fetched_total{job="plain",queue="default"}')
    assert each[1] >= 1
