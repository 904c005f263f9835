"""The page of Celery's options: every option of the code is on it."""

from onward.compat.celery.options import REFUSED_CALL_OPTIONS, REFUSED_TASK_OPTIONS
from tools import celery_reference


def test_every_refused_option_is_on_the_page_with_what_to_do_instead():
    page = celery_reference.PAGE.read_text()

    for option, instead in {**REFUSED_TASK_OPTIONS, **REFUSED_CALL_OPTIONS}.items():
        assert f"| `{option}` | " in page
        assert instead.replace("|", "\\|") in page


def test_a_page_that_is_out_of_date_is_told(tmp_path, capsys):
    assert celery_reference.main(["check"], root=tmp_path) == 1
    assert "out of date" in capsys.readouterr().err
    assert celery_reference.main(["write"], root=tmp_path) == 0
    assert celery_reference.main(["check"], root=tmp_path) == 0
