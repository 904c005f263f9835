"""``--reload``: new code runs as soon as it is saved, and a slip of the pen is survived."""

import pytest

from tests.supervisor.fleets import eventually, let_pass, seconds_of_work

VERSION = """
@jobs.job
def version() -> int:
    return {number}
"""


@pytest.fixture
def write(shop):
    """Save the application with its version."""
    source = (shop.folder / "shop.py").read_text()
    assert shop.module

    def write(number, slip=""):
        text = source + VERSION.format(number=number) + slip
        saved = shop.folder / "saved"
        saved.write_text(text)
        saved.rename(shop.folder / "shop.py")  # as editors do

    return write


def version(shop):
    return shop.jobs.enqueue("version").result(20)


@pytest.mark.parametrize("processes", [1, 2])  # two are forked from a template
def test_new_code_runs_and_what_was_begun_is_finished_with_the_old(shop, start, write, processes):
    write(1)
    fleet = start(shop, "--reload", "--processes", processes)
    held = shop.hold.enqueue("held")
    shop.noted("holding", name="held")
    assert version(shop) == 1
    write(2)
    fleet.said("the code has changed")
    eventually(lambda: version(shop) == 2)
    shop.let("held")

    assert held.result(20) == 1
    assert fleet.stop() == 0


@pytest.mark.parametrize("slips_at_first", [False, True])
def test_a_slip_of_the_pen_is_survived_until_the_next_save(shop, start, write, slips_at_first):
    write(1, slip="this is no Python" if slips_at_first else "")
    fleet = start(shop, "--reload", ready=not slips_at_first)
    if not slips_at_first:
        assert version(shop) == 1
        write(2, slip="raise KeyError")
    fleet.said("SyntaxError|KeyError")
    worked = seconds_of_work(fleet.pid)
    let_pass(1)
    assert seconds_of_work(fleet.pid) - worked < 0.5  # it waits and does not spin
    write(3)

    assert version(shop) == 3
    assert fleet.stop() == 0


def test_a_worker_that_waits_for_the_next_save_can_be_stopped(shop, start, write):
    write(1, slip="this is no Python")
    fleet = start(shop, "--reload", "--processes", 2, ready=False)
    fleet.said("SyntaxError", 2)

    assert fleet.stop() == 0


def test_a_factory_is_called_again_with_the_new_code(shop, start, write):
    factory = "\ndef create():\n    return jobs\n"
    write(1, factory)
    fleet = start(shop, "--reload", app="shop:create()")
    assert version(shop) == 1
    write(2, factory)
    fleet.said("the code has changed")

    eventually(lambda: version(shop) == 2)
    assert fleet.stop() == 0
