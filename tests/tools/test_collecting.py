"""A collection that looks for examples only in files that have one, and leaves the garbage collector as it was."""

import gc

from tests.tools.pytest_runs import pytest_run

WITH_EXAMPLE = '''"""
>>> 1 + 1
2
"""
'''
WITHOUT = """
open("imported", "w").close()
"""


def test_an_example_is_collected_and_a_file_without_one_is_not_imported(tmp_path):
    (tmp_path / "has.py").write_text(WITH_EXAMPLE)
    (tmp_path / "has_not.py").write_text(WITHOUT)

    ended = pytest_run("--doctest-modules", plugins=["tests.collecting"], folder=tmp_path)

    assert "1 passed" in ended.stdout
    assert not (tmp_path / "imported").exists()


def test_a_file_with_tests_and_no_example_is_collected(tmp_path):
    (tmp_path / "test_it.py").write_text("def test_it(): pass")

    ended = pytest_run("--doctest-modules", plugins=["tests.collecting"], folder=tmp_path)

    assert "1 passed" in ended.stdout


def test_garbage_is_collected_while_tests_run():
    assert gc.isenabled()
