"""Every command that people are told to type can be typed, whatever a store says of names."""

import shlex

import pytest

from onward.operate.commands import canary, command, end_process, worker_for

HOSTILE = ["Ada Lovelace", "$(reboot)", "`reboot`", "a; reboot", "a' b", 'a" b', "x\nreboot", "--all", "", "ä", "a b"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_shell_reads_a_name_as_one_word(name):
    assert shlex.split(command("audit", "--who", name)) == ["onward", "audit", "--who", name]
    assert shlex.split(worker_for(name))[-1] == name
    assert shlex.split(canary(name, "3fa9"))[4:] == [name, "--group", "3fa9"]


@pytest.mark.parametrize(
    ("host", "pid", "told"),
    [
        ("web-1.example.org", 12, "ssh web-1.example.org kill -TERM 12"),
        ("", 12, "kill -TERM 12"),
        ("a; reboot", 12, "restart the worker"),
        ("-oProxyCommand=reboot", 12, "restart the worker"),
        ("web-1", -1, "restart the worker"),
        ("web-1", 0, "restart the worker"),
        ("web-1", 1, "restart the worker"),
    ],
)
def test_only_a_process_on_a_host_is_told_to_be_ended(host, pid, told):
    assert end_process(host, pid) == told
