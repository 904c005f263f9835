"""The page of all metrics: nothing is missing."""

from onward.supervisor.probes import CAUSES
from onward.telemetry.families import FAMILIES
from tools import metrics_reference


def test_every_metric_and_every_cause_is_on_the_page():
    page = metrics_reference.PAGE.read_text()

    for group in FAMILIES.values():
        for family in group:
            assert f"| `{family.name}` | {family.kind} |" in page
    for cause in CAUSES:
        assert f"| `{cause}` |" in page


def test_a_page_that_is_out_of_date_is_told(tmp_path, capsys):
    (tmp_path / "docs" / "reference").mkdir(parents=True)

    assert metrics_reference.main(["check"], root=tmp_path) == 1
    assert "out of date" in capsys.readouterr().err
    assert metrics_reference.main(["write"], root=tmp_path) == 0
    assert metrics_reference.main(["check"], root=tmp_path) == 0
