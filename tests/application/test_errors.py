"""The tree of errors: the docstring draws the classes as they are."""

import copy
import inspect
import pickle
import re

import pytest

from onward import errors
from onward.errors import (
    BackendUnavailable,
    EnvelopeTooNew,
    JobDiscardedError,
    OnwardError,
    OptionError,
    PayloadTooLarge,
    ResultTimeout,
    SchemaTooNew,
)

_BRANCH = re.compile(r"^ {4}(?P<lines>[│├└─ ]*)(?P<name>[A-Z]\w+)(?: \((?P<builtin>\w+)\))?(?: .*)?$")


def drawn():
    """Name to the names of its bases, as the docstring draws them."""
    tree, path = {}, []
    for line in errors.__doc__.splitlines():
        branch = _BRANCH.match(line)
        if branch is None:
            continue
        del path[len(branch["lines"]) // 4 :]
        tree[branch["name"]] = [*path[-1:], *filter(None, [branch["builtin"]])] or ["Exception"]
        path.append(branch["name"])
    return tree


def defined():
    """Name to the names of its bases, as they are."""
    classes = inspect.getmembers(errors, inspect.isclass)
    return {
        name: [base.__name__ for base in kind.__bases__] for name, kind in classes if kind.__module__ == errors.__name__
    }


def test_the_picture_is_the_tree():
    assert drawn() == defined()


def test_every_error_is_exported():
    assert sorted(errors.__all__) == sorted(defined())


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_says_what_it_means(name):
    assert inspect.getdoc(getattr(errors, name))


@pytest.mark.parametrize(
    "error",
    [
        OnwardError("x"),
        OptionError("x"),
        PayloadTooLarge(10, 5),
        EnvelopeTooNew(2, 1),
        SchemaTooNew(2, 1),
        JobDiscardedError("a", "gave up", kind="ValueError", reason="spent"),
        ResultTimeout("too late"),
        BackendUnavailable("away"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize(
    "journey", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))], ids=["copy", "pickle"]
)
def test_an_error_can_be_copied_and_sent_to_another_process(error, journey):
    arrived = journey(error)

    assert type(arrived) is type(error)
    assert (str(arrived), vars(arrived)) == (str(error), vars(error))


def test_a_payload_that_is_too_large_is_told_with_the_way_out():
    assert "pass a reference" in str(PayloadTooLarge(300_000, 262_144))
    assert "300,000" in str(PayloadTooLarge(300_000, 262_144))
