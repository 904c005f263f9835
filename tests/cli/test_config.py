"""`onward config` and `version`: what the command works with, and who said so."""

import platform

import pytest

import onward as package


def settings(ran):
    return {line["name"]: (line["value"], line["source"]) for line in ran.json}


def test_every_setting_comes_with_its_source(onward, tmp_path, monkeypatch):
    (tmp_path / "onward.toml").write_text('namespace = "shop"\nmax_crashes = 5\nlease_for = "1m"\n')
    monkeypatch.setenv("ONWARD_MAX_CRASHES", "7")

    told = settings(onward("config", "--url", "sqlite:///other.db", "--json"))

    assert told["url"] == ("sqlite:///other.db", "--url")
    assert told["max_crashes"] == (7, "ONWARD_MAX_CRASHES")
    assert told["namespace"] == ("shop", str(tmp_path / "onward.toml"))
    assert told["lease_for"] == (60.0, str(tmp_path / "onward.toml"))
    assert told["metrics"] == (True, "default")


def test_the_command_line_beats_everything(onward, monkeypatch):
    monkeypatch.setenv("ONWARD_NAMESPACE", "one")

    assert settings(onward("config", "--namespace", "two", "--json"))["namespace"] == ("two", "--namespace")


def test_it_creates_no_store(onward, tmp_path):
    ran = onward("config")

    assert ran.out.splitlines()[0].split() == ["SETTING", "VALUE", "FROM"]
    assert "completed 86400 s, cancelled 604800 s, discarded kept" in ran.out
    assert list(tmp_path.iterdir()) == []


def test_what_an_application_says_in_its_code_is_told_with_app(onward, shop):
    app = shop("sqlite:///shop.db")

    told = settings(onward("config", "--app", app, "--json"))

    assert told["url"] == ("sqlite:///shop.db", f"Onward(...), {app}")
    assert told["default_max_retries"] == (4, f"Onward(...), {app}")
    assert told["max_crashes"] == (3, "default")


def test_what_is_said_on_the_command_line_beats_the_code_of_an_application(onward, shop, tmp_path):
    app = shop("sqlite:///shop.db")

    told = settings(onward("config", "--app", app, "--url", "sqlite:///other.db", "--json"))

    assert told["url"] == ("sqlite:///other.db", "--url")
    assert told["default_max_retries"] == (4, f"Onward(...), {app}")
    assert not (tmp_path / "shop.db").exists()


def test_version_names_what_matters(onward):
    (versions,) = onward("version", "--json").json

    assert list(versions) == ["onward", "python", "sqlite", "msgspec"]
    assert (versions["onward"], versions["python"]) == (package.__version__, platform.python_version())
    assert onward("version").out.splitlines()[0].split() == ["onward", package.__version__]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ONWARD_URL", "postgresql://ann:hunter2@db/shop"),
        ("ONWARD_URL", "redis+sentinel://:hunter2@a/m?sentinel_password=hunter2"),
        (
            "ONWARD_URL",
            "servicebus://Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=k;SharedAccessKey=hunter2=",
        ),
        ("ONWARD_STORE", "mysql://ann:hunter2@db/shop"),
        ("ONWARD_URL", "postgresql://ann:hunter2@hunter2@db/shop"),
        ("ONWARD_URL", "postgresql://ann:hunter2/hunter2@db/shop"),
        ("ONWARD_URL", "mysql://ann:hunter2 hunter2@db/shop"),
        ("ONWARD_URL", "postgresql://db/shop?user=ann&sslpassword=hunter2"),
    ],
)
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_no_password_is_shown(onward, monkeypatch, name, value, options):
    monkeypatch.setenv(name, value)

    shown = onward("config", *options)

    assert shown.code == 0
    assert "hunter2" not in shown.out
    assert "***" in shown.out


def test_a_variable_that_is_no_setting_is_told_on_stderr(shell, monkeypatch):
    monkeypatch.setenv("ONWARD_LEASE_FRO", "1m")
    ran = shell("config")

    assert ran.code == 0
    assert (
        ran.err == "warning: ONWARD_LEASE_FRO is ignored: there is no such setting: did you mean 'ONWARD_LEASE_FOR'?\n"
    )
    assert shell("config", "--quiet").err == ""


def test_retry_policies_are_shown_as_they_can_be_said(onward, tmp_path):
    (tmp_path / "onward.toml").write_text('default_retry = "fixed"\n[queue_retry]\nmail = {strategy = "none"}\n')
    told = {each["name"]: each["value"] for each in onward("config", "--json").json}

    assert told["default_retry"] == "fixed,base=30,max=none,jitter=none,cap=hard"
    assert told["queue_retry"] == {"mail": "none,max=none,jitter=none,cap=hard"}
    assert "mail none,max=none" in onward("config").out


def test_a_store_that_the_url_rules_out_is_told_with_the_url(onward, monkeypatch, tmp_path):
    monkeypatch.setenv("ONWARD_STORE", "sqlite:///beside.db")

    settings = {line["name"]: line for line in onward("config", "--url", "sqlite:///jobs.db", "--json").json}

    assert (settings["store"]["value"], settings["store"]["source"]) == (None, "--url")
    assert settings["url"]["source"] == "--url"
