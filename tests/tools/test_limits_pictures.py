"""The pictures of limits are drawn by what they show."""

from pathlib import Path

from tools import limits_pictures

ROOT = Path(__file__).parents[2]


def test_the_pictures_of_the_page_are_up_to_date():
    assert limits_pictures.main(["check"], ROOT) == 0


def test_a_picture_that_was_changed_by_hand_is_noticed_and_drawn_anew(tmp_path, capsys):
    (tmp_path / "docs").mkdir()
    page = tmp_path / limits_pictures.PAGE
    page.write_text("<!-- picture: rate -->\nby hand\n<!-- end -->\n")

    assert limits_pictures.main(["check"], tmp_path) == 1
    assert "out of date" in capsys.readouterr().err
    assert limits_pictures.main(["write"], tmp_path) == 0
    assert "burst=1 " in page.read_text()
    assert limits_pictures.main(["check"], tmp_path) == 0
