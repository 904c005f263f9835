"""Every module of the package can be imported: also one that no other test happens to import."""

import importlib
import pkgutil
import subprocess
import sys

import pytest

import onward

# Imported by Django, once there are settings; and what runs when it is imported.
_APART = ("onward.integrations.django", "onward.__main__")


def test_every_module_can_be_imported():
    found = [module.name for module in pkgutil.walk_packages(onward.__path__, "onward.") if not _is_apart(module.name)]

    for name in found:
        importlib.import_module(name)

    assert len(found) > 300  # the walk finds what is there


def _is_apart(name):
    return name.startswith(_APART) or name.endswith(".__main__")


@pytest.mark.parametrize(
    "imported",
    [
        "onward.supervisor.supervisor, onward.cli.running, onward.backends.sqlite",
        "onward.worker.worker, onward.entry.child",
    ],
    ids=["supervisor", "worker process"],
)
def test_a_process_of_a_worker_does_without_modules_that_few_jobs_need(imported):
    heavy = ("asyncio", "hashlib", "importlib.resources", "tempfile", "rich", "ssl")
    code = f"import sys, {imported}; print(*sorted(sys.modules.keys() & set({heavy})))"

    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert asked.stdout.split() == []
