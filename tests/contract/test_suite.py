"""The contract suite itself: nothing in it is hidden, nothing in it asks for more than it says."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from onward.backend import Capabilities
from onward.backends.memory import MemoryBackend
from onward.testing import contract
from onward.testing.contract import BackendContract, capabilities

FOLDER = Path(contract.__file__).parent
MARKS = {"__module__", "__dict__", "__weakref__", "pytestmark"}
TOPICS = [topic for topic in BackendContract.__mro__ if topic not in (BackendContract, object)]


def test_no_test_uses_what_it_does_not_say_it_needs():
    bare = Path(__file__).with_name("bare_backend.py")
    run = [sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", "--tb=line", bare]

    result = subprocess.run(run, capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stdout
    assert " passed, " in result.stdout


def test_no_topic_hides_a_test_of_another():
    names = Counter(name for topic in TOPICS for name in vars(topic).keys() - vars(object).keys() - MARKS)

    assert [name for name, count in names.items() if count > 1] == []


def test_every_topic_of_the_folder_is_in_the_suite():
    in_folder = {path.stem for path in FOLDER.glob("*.py") if "    def test_" in path.read_text()}
    in_suite = {topic.__module__.rpartition(".")[2] for topic in TOPICS}

    assert in_suite == in_folder - {"__init__", "capabilities"}
    assert in_suite == set(contract.TOPICS)


def test_the_suite_names_no_backend():
    text = "\n".join(path.read_text().lower() for path in FOLDER.glob("*.py"))

    assert re.findall(r"memory|sqlite|postgres|mysql|redis|beanstalk|service ?bus", text) == []


def test_what_a_backend_lacks_is_named():
    @capabilities.needs("priorities", "inspection")
    @capabilities.needs("durable")
    def test():
        """A test with needs."""

    nothing = SimpleNamespace(capabilities=Capabilities(durable=False, priorities=False))
    assert capabilities.missing(test, MemoryBackend()) == ["durable"]
    assert capabilities.missing(test, nothing) == ["durable", "inspection", "priorities"]


def test_a_class_marks_its_tests_and_no_others():
    @capabilities.needs("durable")
    class Topic:
        def test_one(self): ...

    class Suite(Topic):
        def test_two(self): ...

    assert capabilities.missing(Suite.test_one, MemoryBackend()) == ["durable"]
    assert capabilities.missing(Suite.test_two, MemoryBackend()) == []


def test_an_unknown_need_is_refused():
    with pytest.raises(ValueError, match="no such capability: telepathy"):
        capabilities.needs("telepathy")
