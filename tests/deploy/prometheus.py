"""Debian's prometheus: the programs, and a server that scrapes."""

import json
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from contextlib import contextmanager
from functools import cache

from tests.servers.programs import apt_install, unavailable
from tests.waiting import eventually


@cache
def program(name):
    """`promtool` or `prometheus`; the test is skipped where it cannot be had, and fails there on CI."""
    if shutil.which(name) is None:
        apt_install("prometheus")
    found = shutil.which(name)
    return found or unavailable(f"Debian's package prometheus, with its {name}")


def promtool(*arguments, given=None):
    """Its exit code and all that it says."""
    ran = subprocess.run(
        [program("promtool"), *map(str, arguments)],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return ran.returncode, ran.stdout + ran.stderr


class Prometheus:
    def __init__(self, port):
        self._port = port

    def ask(self, expression):
        """The samples of an expression: labels and value.  An expression that cannot be read raises."""
        query = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/api/v1/query?{query}", timeout=30) as answer:
            return [(each["metric"], float(each["value"][1])) for each in json.load(answer)["data"]["result"]]


@contextmanager
def prometheus_server(folder, target, rules):
    """A server that scrapes every second, and stores below a folder."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [{"job_name": "onward", "honor_labels": True, "static_configs": [{"targets": [target]}]}],
    }
    (folder / "prometheus.yml").write_text(json.dumps(configuration))  # JSON is YAML
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                program("prometheus"),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    try:

        def ready():
            assert process.poll() is None, (folder / "prometheus.log").read_text()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5):
                    return True
            except OSError:
                return False

        eventually(ready, what=(folder / "prometheus.log").read_text)
        yield Prometheus(port)
    finally:
        process.terminate()
        process.wait(30)
