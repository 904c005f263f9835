"""Collecting tests quickly: every process of the run does it, and there are more than 30,000.

- Docstrings are searched for examples only in files that have one.  To import and walk each of 1,400 modules for nothing
  took a fifth of the collection.
- The garbage collector is off meanwhile: what is collected stays until the run ends.
"""

import gc

import pytest
from _pytest.doctest import DoctestModule

EXAMPLE = b">>>"


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path):
    found = yield
    if any(isinstance(each, DoctestModule) for each in found) and EXAMPLE not in file_path.read_bytes():
        return [each for each in found if not isinstance(each, DoctestModule)]
    return found


def pytest_collection_finish():
    """Spare the collector the tests and modules, which stay for ever: to walk them took it up to half of the run."""
    gc.collect()
    gc.freeze()
