"""The pictures of flows are what running them gives."""

from pathlib import Path

import pytest

from tools import flows_picture

ROOT = Path(__file__).parents[2]


def test_the_pictures_of_the_page_are_up_to_date():
    assert flows_picture.main(["check"], ROOT) == 0


def test_every_flow_is_drawn_on_the_page():
    page = (ROOT / flows_picture.PAGE).read_text()

    assert all(f"<!-- picture: {name} -->" in page for name in flows_picture.FLOWS)


@pytest.mark.parametrize(
    ("name", "state"), [("publish", "completed"), ("branches", "failed"), ("growing", "completed")]
)
def test_the_flows_end_as_the_page_says(name, state):
    assert flows_picture.ran(name)[0] == state


def test_a_picture_that_is_out_of_date_is_told_and_drawn_anew(tmp_path, capsys):
    page = tmp_path / flows_picture.PAGE
    page.parent.mkdir()
    page.write_text("<!-- picture: growing -->\nold\n<!-- end -->\n")

    assert flows_picture.main(["check"], tmp_path) == 1
    assert "out of date" in capsys.readouterr().err
    assert flows_picture.main(["write"], tmp_path) == 0
    assert "╰─● resize       5 jobs" in page.read_text()
    assert flows_picture.main(["check"], tmp_path) == 0
