"""The promises page and the tests that show it, on small trees made for each test."""

import pytest

from tools import promises

PAGE = """\
# Promises

## Safety

- **S1** A job that was accepted
  is never lost.
- **F47** A retry waits.

Some prose.
"""

TESTS = """\
import pytest

@pytest.mark.promise("S1")
def test_kept(): ...

@pytest.mark.promise("F47")
class TestRetry:
    def test_waits(self): ...

    @pytest.mark.promise("S1")
    async def test_waits_and_is_kept(self): ...

    def helper(self): ...

def test_of_something_else(): ...
"""

WRITTEN = """\
# Promises

## Safety

- **S1** A job that was accepted
  is never lost.
  Shown by: [`test_kept`](../tests/unit/test_life.py), [`test_waits_and_is_kept`](../tests/unit/test_life.py)
- **F47** A retry waits.
  Shown by: [`test_waits`](../tests/unit/test_life.py), [`test_waits_and_is_kept`](../tests/unit/test_life.py)

Some prose.
"""


@pytest.fixture
def tree(tmp_path):
    """Write files by relative path; answers with the root."""

    def write(files):
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        return tmp_path

    return write


def test_write_lists_the_tests_below_each_promise(tree):
    root = tree({"docs/promises.md": PAGE, "tests/unit/test_life.py": TESTS})

    assert promises.main(["write"], root) == 0

    assert (root / "docs/promises.md").read_text() == WRITTEN


def test_write_changes_nothing_the_second_time(tree):
    root = tree({"docs/promises.md": WRITTEN, "tests/unit/test_life.py": TESTS})

    assert promises.main(["write"], root) == 0

    assert (root / "docs/promises.md").read_text() == WRITTEN


def test_check_accepts_a_page_that_is_up_to_date(tree, capsys):
    root = tree({"docs/promises.md": WRITTEN, "tests/unit/test_life.py": TESTS})

    assert promises.main(["check"], root) == 0
    assert capsys.readouterr().err == ""


def test_check_refuses_a_page_that_is_out_of_date(tree, capsys):
    root = tree({"docs/promises.md": PAGE, "tests/unit/test_life.py": TESTS})

    assert promises.main(["check"], root) == 1

    assert "out of date" in capsys.readouterr().err
    assert (root / "docs/promises.md").read_text() == PAGE


def test_check_refuses_a_promise_that_no_test_shows(tree, capsys):
    root = tree({"docs/promises.md": WRITTEN + "- **S9** Nothing is forgotten.\n", "tests/unit/test_life.py": TESTS})

    assert promises.main(["check"], root) == 1
    assert capsys.readouterr().err == "docs/promises.md: no test shows S9\n"


def test_check_refuses_a_test_of_a_number_that_is_not_promised(tree, capsys):
    stray = '@pytest.mark.promise("S99")\ndef test_stray(): ...\n'
    root = tree({"docs/promises.md": WRITTEN, "tests/unit/test_life.py": TESTS, "tests/test_stray.py": stray})

    assert promises.main(["check"], root) == 1
    assert capsys.readouterr().err == "tests/test_stray.py:2: test_stray names S99, which is not promised\n"


def test_check_refuses_a_number_promised_twice(tree, capsys):
    root = tree({"docs/promises.md": PAGE + "- **S1** Again.\n", "tests/unit/test_life.py": TESTS})

    promises.main(["check"], root)

    assert "docs/promises.md: S1 is there twice" in capsys.readouterr().err


def test_the_shipped_contract_counts_and_a_long_list_is_cut(tree):
    tests = "".join(f'@pytest.mark.promise("S1")\ndef test_{letter}(): ...\n' for letter in "abcdef")
    root = tree({"docs/promises.md": "- **S1** Kept.\n", "src/onward/testing/contract/leases.py": tests})

    promises.main(["write"], root)

    shown_by = (root / "docs/promises.md").read_text().splitlines()[1]
    assert shown_by.startswith("  Shown by: [`test_a`](../src/onward/testing/contract/leases.py), ")
    assert shown_by.endswith("[`test_d`](../src/onward/testing/contract/leases.py) and 2 more")


def test_a_class_that_inherits_its_tests_stands_for_them(tree):
    machine = '@pytest.mark.promise("S1")\nclass TestMachine(Machine.TestCase):\n    settings = None\n'
    root = tree({"docs/promises.md": "- **S1** Kept.\n", "tests/test_machine.py": machine})

    assert promises.main(["write"], root) == 0
    assert "[`TestMachine`](../tests/test_machine.py)" in (root / "docs/promises.md").read_text()
