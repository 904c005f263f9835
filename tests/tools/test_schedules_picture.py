"""The pictures of schedules are drawn by what they show."""

from pathlib import Path

from tools import schedules_picture

ROOT = Path(__file__).parents[2]


def test_the_pictures_of_the_page_are_up_to_date():
    assert schedules_picture.main(["check"], ROOT) == 0


def test_a_picture_that_was_changed_by_hand_is_noticed_and_drawn_anew(tmp_path, capsys):
    (tmp_path / "docs").mkdir()
    page = tmp_path / schedules_picture.PAGE
    page.write_text("<!-- picture: overlap -->\nby hand\n<!-- end -->\n")

    assert schedules_picture.main(["check"], tmp_path) == 1
    assert "out of date" in capsys.readouterr().err
    assert schedules_picture.main(["write"], tmp_path) == 0
    assert "overlap='skip'" in page.read_text()
    assert schedules_picture.main(["check"], tmp_path) == 0
