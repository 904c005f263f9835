"""The page of the backend contract: nothing of the contract's modules is missing, and an old page is told."""

from onward.contract.backend import Backend
from onward.contract.capabilities import Capabilities
from onward.contract.inspection import Inspection
from tools import backend_contract


def test_every_verb_method_and_capability_is_on_the_page():
    page = backend_contract.PAGE.read_text()

    for verb in ("connect", *sorted(Backend.__abstractmethods__ - {"capabilities"})):
        assert f"### {verb}\n\n```text\n{verb}(" in page
    for method in vars(Inspection):
        if not method.startswith("_"):
            assert f"- `{method}(" in page
    for capability in Capabilities.__struct_fields__:
        assert f"| `{capability}` | " in page


def test_a_page_that_is_out_of_date_is_told(tmp_path, capsys):
    (tmp_path / "docs").mkdir()

    assert backend_contract.main(["check"], root=tmp_path) == 1
    assert "out of date" in capsys.readouterr().err
    assert backend_contract.main(["write"], root=tmp_path) == 0
    assert backend_contract.main(["check"], root=tmp_path) == 0


def test_every_verb_has_a_text():
    for verb in Backend.__abstractmethods__:
        assert getattr(Backend, verb).__doc__, verb
