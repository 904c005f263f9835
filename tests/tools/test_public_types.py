"""The check of public types judges the names of the reference by what is wrong with themselves."""

import subprocess

import pytest

from tools import public_types

LISTED = ["onward.app.Onward", "onward.telemetry.events", "onward.testing.contract.BackendContract"]


@pytest.mark.parametrize(
    ("symbol", "public"),
    [
        ("onward.app.Onward", True),
        ("onward.app.Onward.enqueue", True),
        ("onward.app.Onward.__init__", True),
        ("onward.app.Onward._parts", False),
        ("onward.app.OnwardElse", False),
        ("onward.client.client.Client.get", False),
        ("onward.testing.contract.BackendContract", False),
    ],
)
def test_what_belongs_to_a_listed_name_is_public(symbol, public):
    assert public_types.is_public(symbol, LISTED) is public


def test_a_name_is_at_fault_when_its_own_type_has_to_be_guessed():
    messages = ["No docstring found for function", 'Return type is partially unknown\n  Return type is "Worker"']
    found = [{"message": text} for text in (*messages, "Type is missing type annotation\n and could be inferred")]

    known = {"name": "a", "isTypeKnown": True, "isTypeAmbiguous": False, "diagnostics": found[:1]}
    through_another = {"name": "b", "isTypeKnown": True, "isTypeAmbiguous": True, "diagnostics": found[:2]}
    guessed = {"name": "c", "isTypeKnown": True, "isTypeAmbiguous": True, "diagnostics": found}

    assert public_types.own_faults(known) == public_types.own_faults(through_another) == []
    assert public_types.own_faults(guessed) == ["Type is missing type annotation and could be inferred"]


@pytest.mark.parametrize(
    ("symbols", "code"), [(["onward.errors.OnwardError"], 0), (["onward.errors.OptionError"], 1), ([], 1)]
)
def test_a_guessed_type_fails_the_check_and_so_does_an_answer_without_names(symbols, code, monkeypatch, capsys):
    answer = [
        {"name": name, "isTypeKnown": name.endswith("OnwardError"), "diagnostics": [{"message": "Type is missing"}]}
        for name in symbols
    ]
    monkeypatch.setattr(public_types, "_symbols", lambda: answer)

    assert public_types.main() == code
    assert ("onward.errors.OptionError: Type is missing" in capsys.readouterr().out) is (code == 1 and bool(symbols))


def test_it_says_what_to_do_where_the_checker_is_not_installed(monkeypatch, capsys):
    monkeypatch.setattr(public_types.shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(subprocess, "run", None)

    assert public_types.main() == 1
    assert "make setup" in capsys.readouterr().out
