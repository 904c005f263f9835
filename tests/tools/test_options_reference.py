"""The page of all options: nothing is missing, and what lacks a text is told."""

import pytest

from onward.job.definition import JobOptions, SharedOptions, UsingOptions
from tools import options_reference


def test_every_option_is_on_the_page(tmp_path):
    page = options_reference.PAGE.read_text()

    for kind in (SharedOptions, JobOptions, UsingOptions):
        for option in kind.__annotations__:
            assert f"| `{option}` |" in page
    for told in ("ctx.is_last_attempt", "`--processes N`", "`blocked_loop_after`", "`lease_for`"):
        assert told in page


def test_a_page_that_is_out_of_date_is_told(tmp_path, capsys):
    (tmp_path / "docs" / "reference").mkdir(parents=True)
    (tmp_path / options_reference.CONFIGURATION).write_text(options_reference.CONFIGURATION.read_text())

    assert options_reference.main(["check"], root=tmp_path) == 1
    assert "out of date" in capsys.readouterr().err
    assert options_reference.main(["write"], root=tmp_path) == 0
    assert options_reference.main(["check"], root=tmp_path) == 0


class Unexplained:
    told: int
    """What it means."""
    untold: int


def test_an_option_without_a_text_is_an_error():
    with pytest.raises(SystemExit, match=r"Unexplained\.untold has no text"):
        options_reference.documented(Unexplained)
