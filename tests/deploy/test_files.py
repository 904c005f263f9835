"""The files of `deploy/`: each is read by its own rules, and all that they name of Onward exists."""

import dataclasses
import os
import re
import shutil
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest

from onward.cli.commands import TREE
from onward.cli.exits import Exit
from onward.cli.parser import parse
from onward.config import Settings
from onward.supervisor.probes import Probes
from onward.telemetry import families
from tests.deploy import shipped
from tests.servers.programs import apt_install, unavailable

UNITS = ("onward.service", "onward@.service", "onward-prune.service", "onward-prune.timer")
LINES = list(shipped.command_lines())
WORKERS = [line for line in LINES if line.words[0] == "worker"]


@pytest.mark.promise("S168")
class TestWhatIsNamed:
    @pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.file}: onward {' '.join(line.words)}")
    def test_every_command_line_is_one_of_onward(self, line):
        assert parse(line.words).command is not None

    def test_every_file_is_looked_at(self):
        seen = {line.file for line in LINES} | {*UNITS, "scaling.yaml", "scaling-by-age.yaml"}

        assert {path.name for path in shipped.FILES} - seen == {"rules.yml", "onward.json"}  # test_prometheus.py

    def test_every_option_and_command_of_a_comment_exists(self):
        words = " ".join(str(each) for each in TREE)
        for path in shipped.FILES:
            for comment in re.findall(r"[#;] (.*)", path.read_text()):
                for option in re.findall(r"--[a-z-]+(?=, which is)", comment):
                    assert option in words, (path.name, option)
                for command in re.findall(r"`onward ([a-z]+)", comment):
                    assert command in {each.name for each in TREE}, (path.name, command)

    def test_every_exit_code_means_something(self):
        told = {
            (path.name, int(code)) for path in shipped.FILES for code in re.findall(r"xit code (\d+)", path.read_text())
        }
        told |= {("unit", int(shipped.unit(name)["Service"]["RestartPreventExitStatus"][0])) for name in UNITS[:2]}
        told |= {
            (path.name, int(code))
            for path in shipped.FILES
            for code in re.findall(r"exit code is (\d+)", path.read_text())
        }

        assert {code for _, code in told} == {Exit.USAGE, Exit.UNREACHABLE, Exit.PENDING}

    def test_every_metric_exists(self):
        text = "".join(path.read_text() for path in shipped.FILES if path.parent.name == "kubernetes")
        known = {family.name for group in families.FAMILIES.values() for family in group}

        assert set(re.findall(r"onward_(?!due\b)[a-z_]+", text)) == {"onward_queue_oldest_due_seconds"} <= known

    def test_every_variable_is_a_setting(self):
        text = "".join(path.read_text() for path in shipped.FILES)
        known = {f"ONWARD_{field.name.upper()}" for field in dataclasses.fields(Settings)} | {"ONWARD_BUILD"}

        assert set(re.findall(r"ONWARD_[A-Z_]+", text)) == {"ONWARD_URL", "ONWARD_BUILD"} <= known


@pytest.mark.promise("S168")
class TestStopping:
    """A platform that waits for less than a worker does turns each deployment into interruptions."""

    def test_every_platform_waits_longer_than_the_worker(self):
        waits = {
            "onward.service": float(shipped.unit("onward.service")["Service"]["TimeoutStopSec"][0]),
            "onward@.service": float(shipped.unit("onward@.service")["Service"]["TimeoutStopSec"][0]),
            "compose.yaml": float(shipped.compose()["services"]["worker"]["stop_grace_period"].removesuffix("s")),
            "worker.yaml": float(shipped.pod("worker.yaml")["terminationGracePeriodSeconds"]),
            "fly.toml": float(shipped.fly()["kill_timeout"]),
            "onward.conf": float(shipped.supervised()["stopwaitsecs"]),
            "Procfile": 30.0,  # the platform's own
        }
        waits["Containerfile"] = waits["compose.yaml"]

        for line in WORKERS:
            longest = parse(line.words).shutdown_timeout
            assert waits[line.file] >= longest + (10 if line.file != "Procfile" else 5), line
        assert {line.file for line in WORKERS} == waits.keys() - {"compose.yaml"}

    def test_the_supervisor_alone_gets_a_signal_that_it_heeds(self):
        service = shipped.unit("onward.service")["Service"]
        assert (service["KillMode"], service["NotifyAccess"]) == (["mixed"], ["main"])
        assert ("STOPSIGNAL", "SIGTERM") in shipped.instructions()
        assert shipped.fly()["kill_signal"] == "SIGTERM"
        supervised = shipped.supervised()
        assert (supervised["stopsignal"], supervised.getboolean("stopasgroup")) == ("TERM", False)
        assert "preStop" not in (shipped.FOLDER / "kubernetes" / "worker.yaml").read_text().replace("no preStop", "")
        assert procfile_worker().startswith('ONWARD_URL="$DATABASE_URL" exec ')  # else the shell would get it


def procfile_worker():
    return shipped.procfile()["worker"]


@pytest.mark.promise("S168")
class TestProbes:
    def test_every_path_is_answered_on_the_port_that_the_worker_listens_on(self):
        (container,) = shipped.pod("worker.yaml")["containers"]
        fly = shipped.fly()
        asked = {
            *((container[probe]["httpGet"]["path"]) for probe in ("livenessProbe", "readinessProbe")),
            fly["checks"]["live"]["path"],
            fly["metrics"]["path"],
        }
        assert asked == {"/livez", "/readyz", "/metrics"}
        source = Path(sys.modules[Probes.__module__].__file__).read_text()
        assert asked == set(re.findall(r'case "(/\w+)"', source))

        ((name, number),) = [(port["name"], port["containerPort"]) for port in container["ports"]]
        assert {container[probe]["httpGet"]["port"] for probe in ("livenessProbe", "readinessProbe")} == {name}
        listens = {line.file: parse(line.words).listen for line in WORKERS if "--listen" in line.words}
        assert listens == {"worker.yaml": ("0.0.0.0", number), "fly.toml": ("0.0.0.0", fly["metrics"]["port"])}
        assert fly["checks"]["live"]["port"] == fly["metrics"]["port"]

    def test_the_health_check_of_the_container_tells_a_worker_that_is_well_from_one_that_is_not(self, tmp_path):
        (rest,) = [rest for word, rest in shipped.instructions() if word == "HEALTHCHECK"]
        command = rest.partition("CMD ")[2]
        (worker,) = [line for line in WORKERS if line.file == "Containerfile"]
        heartbeat = str(parse(worker.words).heartbeat)
        assert heartbeat in command
        file = tmp_path / "alive"

        def check():
            ran = subprocess.run(["sh", "-c", command.replace(heartbeat, str(file))], capture_output=True, check=False)
            return ran.returncode

        assert check() == 1  # it has not started
        file.touch()
        assert check() == 0
        os.utime(file, (time.time() - 61,) * 2)
        assert check() == 1  # it hangs


@pytest.mark.promise("S168")
class TestRights:
    def test_the_image_runs_as_a_number_that_is_not_root(self):
        (user,) = [rest for word, rest in shipped.instructions() if word == "USER"]
        assert int(user) > 0
        words = [word for word, _ in shipped.instructions()]
        assert words.index("USER") > max(index for index, word in enumerate(words) if word in ("RUN", "COPY"))
        assert "ENTRYPOINT" not in words

        for name in ("worker.yaml", "migrate.yaml"):
            spec = shipped.pod(name)
            assert spec["securityContext"]["runAsUser"] == int(user)
            for container in spec.get("initContainers", []) + spec["containers"]:
                assert container["securityContext"] == {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                }

    def test_a_new_pod_is_there_before_an_old_one_goes_and_finds_its_tables(self):
        (deployment,) = shipped.documents("kubernetes/worker.yaml")
        assert deployment["spec"]["strategy"] == {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert deployment["spec"]["selector"]["matchLabels"] == labels
        (tables,) = shipped.pod("worker.yaml")["initContainers"]
        assert parse(tables["command"][1:]).check

    def test_compose_starts_the_database_then_the_tables_then_the_worker(self):
        services = shipped.compose()["services"]
        assert services["migrate"]["depends_on"] == {"database": {"condition": "service_healthy"}}
        assert services["worker"]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
        assert services["worker"]["init"] is False
        assert services["database"]["healthcheck"]["test"][1] == "pg_isready"


@pytest.mark.promise("S168")
class TestScaling:
    def test_a_pod_is_asked_for_as_many_jobs_as_it_runs_at_once(self):
        authentication, scaled = shipped.documents("kubernetes/scaling.yaml")
        (trigger,) = scaled["spec"]["triggers"]
        (worker,) = [line for line in WORKERS if line.file == "worker.yaml"]
        args = parse(worker.words)

        assert int(trigger["metadata"]["targetQueryValue"]) == args.processes * args.concurrency
        assert trigger["authenticationRef"]["name"] == authentication["metadata"]["name"]
        for document in (scaled, *shipped.documents("kubernetes/scaling-by-age.yaml")):
            (deployment,) = shipped.documents("kubernetes/worker.yaml")
            assert document["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
            assert document["spec"]["minReplicaCount"] >= 1


@cache
def systemd_analyze():
    if shutil.which("systemd-analyze") is None:
        apt_install("systemd")
    return shutil.which("systemd-analyze") or unavailable("Debian's package systemd, with its systemd-analyze")


@pytest.mark.promise("S168")
class TestSystemd:
    @pytest.fixture
    def folder(self, tmp_path):
        """The units, with a program that there is."""
        onward = Path(sys.executable).with_name("onward")
        for name in UNITS:
            text = (shipped.FOLDER / "systemd" / name).read_text()
            (tmp_path / name).write_text(text.replace("/srv/shop/.venv/bin/onward", str(onward)))
        return tmp_path

    @staticmethod
    def analyze(folder, *arguments):
        ran = subprocess.run(
            [systemd_analyze(), *arguments],
            cwd=folder,
            env={**os.environ, "SYSTEMD_UNIT_PATH": f"{folder}:"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return ran.returncode, ran.stdout + ran.stderr

    @pytest.mark.parametrize("name", ["onward.service", "onward@mail.service", "onward-prune.timer"])
    def test_it_reads_every_line_of_a_unit(self, folder, name):
        code, said = self.analyze(folder, "verify", "--man=no", "--recursive-errors=no", name)

        assert code == 0, said
        assert str(folder) not in said  # no complaint about one of ours

    def test_it_finds_little_that_the_worker_may_do_without_need(self, folder):
        code, said = self.analyze(
            folder, "security", "--offline=true", "--threshold=20", "--no-pager", "onward.service"
        )

        assert code == 0, said

    def test_both_workers_are_confined_alike(self):
        one, each = (shipped.unit(name)["Service"] for name in ("onward.service", "onward@.service"))

        assert {**one, "ExecStart": None} == {**each, "ExecStart": None}
        assert [line.words[-2:] for line in WORKERS if line.file == "onward@.service"] == [["--queues", "%i"]]
