"""Settings: what they are by default, who overrides whom, and what is refused."""

import math
from dataclasses import fields

import pytest

from onward import Custom, Exponential, NoDelay, config
from onward.config import Settings, SettingsOptions, explain, load, to_environment
from onward.errors import InvalidName, InvalidTime, OptionError
from onward.job.states import State

DAY = 86_400.0


@pytest.fixture
def folder(tmp_path):
    """An empty folder below another one, so that nothing of this machine is found first."""
    below = tmp_path / "project" / "src"
    below.mkdir(parents=True)
    return below


def loaded(folder, environ=None, **given):
    return load(given, environ=environ or {}, start=folder)


# Defaults


def test_without_any_source_the_defaults_hold(folder):
    assert loaded(folder) == Settings()
    assert Settings().url == "sqlite:///onward.db"


@pytest.mark.promise("S11")
def test_by_default_a_job_is_not_retried(folder):
    assert loaded(folder).default_max_retries == 0


@pytest.mark.promise("F62")
def test_by_default_finished_jobs_do_not_stay_for_ever(folder):
    assert loaded(folder).retention == {State.COMPLETED: DAY, State.CANCELLED: 7 * DAY, State.DISCARDED: None}


def test_every_setting_can_be_given_as_an_argument():
    assert SettingsOptions.__annotations__.keys() == {each.name for each in fields(Settings)} - {"url"}


# Who overrides whom


def test_a_file_beats_the_defaults(folder):
    (folder / "onward.toml").write_text('namespace = "from_file"')

    assert loaded(folder).namespace == "from_file"


def test_the_environment_beats_a_file(folder):
    (folder / "onward.toml").write_text('namespace = "from_file"')

    assert loaded(folder, {"ONWARD_NAMESPACE": "from_environment"}).namespace == "from_environment"


def test_an_argument_beats_the_environment(folder):
    (folder / "onward.toml").write_text('namespace = "from_file"')

    settings = loaded(folder, {"ONWARD_NAMESPACE": "from_environment"}, namespace="from_argument")

    assert settings.namespace == "from_argument"


def test_each_source_overrides_only_what_it_names(folder):
    (folder / "onward.toml").write_text('namespace = "from_file"\nmax_crashes = 5\nlease_for = "1m"')

    settings = loaded(folder, {"ONWARD_MAX_CRASHES": "7"}, lease_for=90)

    assert (settings.namespace, settings.max_crashes, settings.lease_for) == ("from_file", 7, 90)


def test_each_setting_knows_where_it_comes_from(folder):
    (folder / "onward.toml").write_text('namespace = "from_file"\nmax_crashes = 5\nlease_for = "1m"')

    origins = explain({"lease_for": 90}, environ={"ONWARD_MAX_CRASHES": "7"}, start=folder)

    assert origins["namespace"] == ("from_file", str(folder / "onward.toml"))
    assert origins["max_crashes"] == (7, "the environment")
    assert origins["lease_for"] == (90, "Onward(...)")
    assert origins["max_payload"] == (256 * 1024, "default")


# Which file


def test_the_own_table_of_pyproject_is_read(folder):
    (folder / "pyproject.toml").write_text('[project]\nname = "x"\n[tool.onward]\nnamespace = "shared"')

    assert loaded(folder).namespace == "shared"


def test_an_own_file_beats_pyproject_in_the_same_folder(folder):
    (folder / "pyproject.toml").write_text('[tool.onward]\nnamespace = "shared"')
    (folder / "onward.toml").write_text('namespace = "own"')

    assert loaded(folder).namespace == "own"


def test_the_nearest_file_wins(folder):
    (folder.parent / "onward.toml").write_text('namespace = "far"')
    (folder / "pyproject.toml").write_text('[tool.onward]\nnamespace = "near"')

    assert loaded(folder).namespace == "near"


def test_only_one_file_counts(folder):
    (folder.parent / "onward.toml").write_text("max_crashes = 5")
    (folder / "onward.toml").write_text('namespace = "near"')

    assert loaded(folder).max_crashes == 3


@pytest.mark.parametrize("text", ["", '[project]\nname = "x"', "[tool.ruff]\nline-length = 120"])
def test_a_pyproject_without_our_table_is_passed_over(folder, text):
    (folder.parent / "onward.toml").write_text('namespace = "far"')
    (folder / "pyproject.toml").write_text(text)

    assert loaded(folder).namespace == "far"


@pytest.mark.parametrize("name", ["onward.toml", "pyproject.toml"])
@pytest.mark.parametrize("text", [b"namespace = ", b"\xff\xfe", b"a = 1\na = 2"])
def test_a_file_that_cannot_be_read_is_refused_by_name(folder, name, text):
    (folder / name).write_bytes(text)

    with pytest.raises(OptionError, match=f"{name} cannot be read"):
        loaded(folder)


@pytest.mark.parametrize("text", ["[tool]\nonward = 5", '[tool]\nonward = ["namespace"]'])
def test_a_table_that_is_no_table_is_refused_by_name(folder, text):
    (folder / "pyproject.toml").write_text(text)

    with pytest.raises(OptionError, match=r"pyproject\.toml"):
        loaded(folder)


@pytest.mark.parametrize(
    ("url", "means"),
    [
        ("sqlite:///jobs.db", "sqlite:///{folder}/jobs.db"),
        ("sqlite:///data/jobs.db", "sqlite:///{folder}/data/jobs.db"),
        ("sqlite:////var/jobs.db", "sqlite:////var/jobs.db"),
        ("memory://", "memory://"),
        ("postgresql:///jobs", "postgresql:///jobs"),
    ],
)
def test_a_relative_path_in_a_file_counts_from_its_folder(folder, url, means):
    (folder.parent / "onward.toml").write_text(f'url = "{url}"')

    assert loaded(folder).url == means.format(folder=folder.parent)


def test_a_relative_path_in_an_argument_is_left_to_the_program(folder):
    assert loaded(folder, url="sqlite:///jobs.db").url == "sqlite:///jobs.db"


# The environment


@pytest.mark.parametrize(
    ("name", "text", "setting", "value"),
    [
        ("ONWARD_URL", "memory://", "url", "memory://"),
        ("ONWARD_MAX_CRASHES", "5", "max_crashes", 5),
        ("ONWARD_DEFAULT_MAX_RETRIES", "2", "default_max_retries", 2),
        ("ONWARD_MAX_PAYLOAD", "2048", "max_payload", 2048),
        ("ONWARD_LEASE_FOR", "90", "lease_for", 90.0),
        ("ONWARD_LEASE_FOR", "1.5m", "lease_for", 90.0),
        ("ONWARD_UNKNOWN_GRACE", "2h", "unknown_grace", 7200.0),
        ("ONWARD_IDEMPOTENCY_TTL", "7d", "idempotency_ttl", 604_800.0),
        ("ONWARD_METRICS", "false", "metrics", False),
        ("ONWARD_METRICS", "YES", "metrics", True),
        ("ONWARD_METRICS", "0", "metrics", False),
        ("ONWARD_DROP_ON_DLQ_FAILURE", "1", "drop_on_dlq_failure", True),
        ("ONWARD_DEAD_LETTER_QUEUE", "failed_jobs", "dead_letter_queue", "failed_jobs"),
        ("ONWARD_DEFAULT_RETRY", "exponential", "default_retry", Exponential()),
    ],
)
def test_the_environment_says_it_as_text(folder, name, text, setting, value):
    assert getattr(loaded(folder, {name: text}), setting) == value


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("ONWARD_METRICS", "maybe", OptionError),
        ("ONWARD_METRICS", "", OptionError),
        ("ONWARD_MAX_CRASHES", "many", OptionError),
        ("ONWARD_MAX_CRASHES", "1.5", OptionError),
        ("ONWARD_MAX_CRASHES", "0", OptionError),
        ("ONWARD_LEASE_FOR", "soon", InvalidTime),
        ("ONWARD_LEASE_FOR", "nan", InvalidTime),
        ("ONWARD_NAMESPACE", "", InvalidName),
        ("ONWARD_DEAD_LETTER_QUEUE", "a b", InvalidName),
    ],
)
def test_text_in_the_environment_that_makes_no_sense_is_refused(folder, name, text, error):
    with pytest.raises(error):
        loaded(folder, {name: text})


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"signing_keys": f"new:{'n' * 40},old:{'o' * 40},lost:revoked", "signing": "require", "encryption": True},
        {"store": "sqlite:///beside.db", "namespace": "shop", "dead_letter_queue": "dead", "drop_on_dlq_failure": True},
        {"lease_for": 2.5, "unknown_grace": 1e9, "idempotency_ttl": 0.5, "max_payload": 2048, "metrics": False},
        {"default_retry": "exponential, base=5, jitter=additive:0.25"},
        {"default_retry": NoDelay()},
    ],
)
def test_another_process_is_told_every_setting_by_its_environment(folder, given):
    settings = loaded(folder, **given)
    told = {name: text for name, text in to_environment(settings).items() if text is not None}

    assert loaded(folder, told) == settings


@pytest.mark.usefixtures("private_files")
def test_keys_of_a_file_are_told_by_its_name(folder):
    path = folder / "keys"
    path.write_text(f"new:{'n' * 40}")
    told = to_environment(loaded(folder, signing_keys=path))

    assert (told["ONWARD_SIGNING_KEYS_FILE"], told["ONWARD_SIGNING_KEYS"]) == (str(path), None)


def test_a_retry_policy_that_is_code_is_not_told_to_another_process(folder):
    assert to_environment(loaded(folder, default_retry=Custom(max)))["ONWARD_DEFAULT_RETRY"] is None


OTHERS = [
    "ONWARDS",
    "ONWARD",
    "PATH",
    "ONWARD_SERVICE_HOST",
    "ONWARD_SERVICE_PORT",
    "ONWARD_SERVICE_PORT_HTTP",
    "ONWARD_PORT",
    "ONWARD_PORT_5432_TCP",
    "ONWARD_PORT_5432_TCP_ADDR",
    "ONWARD_REDIS_SERVICE_HOST",
    "ONWARD_REDIS_PORT_6379_TCP_PROTO",
]


@pytest.fixture
def untold(monkeypatch):
    """A process that was told of nothing yet."""
    monkeypatch.setattr(config, "_told", set())


@pytest.mark.usefixtures("untold")
def test_other_people_s_variables_are_left_alone(folder, caplog):
    """Among them what Kubernetes puts into every container beside a service of that name."""
    assert loaded(folder, dict.fromkeys(OTHERS, "10.0.0.1")) == Settings()
    assert caplog.records == []


@pytest.mark.usefixtures("untold")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("ONWARD_LEASE_FRO", "ONWARD_LEASE_FRO is ignored: there is no such setting: did you mean 'ONWARD_LEASE_FOR'?"),
        ("ONWARD_MAX_RETRIES", "there is no such setting: did you mean 'ONWARD_DEFAULT_MAX_RETRIES'?"),
        ("ONWARD_signing", "there is no such setting"),
        ("ONWARD_COLOUR_OF_THE_SKY", "ONWARD_COLOUR_OF_THE_SKY is ignored: there is no such setting"),
        ("ONWARD_RETENTION", "set retention in onward.toml or in Onward(...)"),
        ("ONWARD_QUEUE_RETRY", "set queue_retry in onward.toml or in Onward(...)"),
    ],
)
def test_a_variable_that_is_no_setting_is_told_once_with_the_nearest(folder, caplog, name, says):
    for _ in range(3):
        assert loaded(folder, {name: "secret", "ONWARD_NAMESPACE": "shop"}).namespace == "shop"

    (record,) = caplog.records
    assert (record.name, record.levelname) == ("onward", "WARNING")
    assert says in record.getMessage()
    assert "secret" not in record.getMessage()


# What is refused


@pytest.mark.parametrize(
    ("place", "write"),
    [
        ("onward.toml", lambda folder: (folder / "onward.toml").write_text('namespce = "x"')),
        ("pyproject.toml", lambda folder: (folder / "pyproject.toml").write_text('[tool.onward]\nnamespce = "x"')),
    ],
)
def test_an_unknown_name_in_a_file_is_refused_with_its_place_and_a_hint(folder, place, write):
    write(folder)

    with pytest.raises(OptionError, match=rf"{place}.*there is no setting 'namespce': did you mean 'namespace'"):
        loaded(folder)


def test_an_unknown_argument_is_refused_with_a_hint(folder):
    with pytest.raises(
        OptionError, match=r"Onward\(\.\.\.\): there is no setting 'max_crash': did you mean 'max_crashes'"
    ):
        loaded(folder, max_crash=5)


@pytest.mark.parametrize(
    ("setting", "value", "error"),
    [
        ("url", 5, OptionError),
        ("url", None, OptionError),
        ("namespace", "Not Allowed", InvalidName),
        ("namespace", None, InvalidName),
        ("dead_letter_queue", "a b", InvalidName),
        ("lease_for", 0.5, OptionError),
        ("lease_for", math.nan, InvalidTime),
        ("lease_for", None, InvalidTime),
        ("unknown_grace", -1, InvalidTime),
        ("idempotency_ttl", -1, InvalidTime),
        ("idempotency_ttl", None, InvalidTime),
        ("max_crashes", 0, OptionError),
        ("max_crashes", 2.5, OptionError),
        ("max_crashes", math.nan, OptionError),
        ("max_crashes", True, OptionError),
        ("max_crashes", "3", OptionError),
        ("default_max_retries", -1, OptionError),
        ("default_max_retries", math.inf, OptionError),
        ("default_max_retries", None, OptionError),
        ("max_payload", 1023, OptionError),
        ("max_payload", 1e6, OptionError),
        ("metrics", "false", OptionError),
        ("metrics", 0, OptionError),
        ("drop_on_dlq_failure", "no", OptionError),
        ("default_retry", "expnential", OptionError),
        ("default_retry", {"base": 5}, OptionError),
        ("queue_retry", {"mail": 5}, OptionError),
        ("queue_retry", {"a b": "fixed"}, InvalidName),
        ("queue_retry", None, OptionError),
        ("retention", {"executing": 5}, OptionError),
        ("retention", {"complete": 5}, OptionError),
        ("retention", {"completed": -1}, InvalidTime),
        ("retention", "1d", OptionError),
        ("retention", 5, OptionError),
        ("retention", None, OptionError),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(folder, setting, value, error):
    with pytest.raises(error, match=setting if error is OptionError else "."):
        loaded(folder, **{setting: value})


# Retention


@pytest.mark.promise("F62")
def test_retention_is_set_state_by_state(folder):
    retention = loaded(folder, retention={"completed": "2h", State.DISCARDED: "30d"}).retention

    assert retention == {State.COMPLETED: 7200.0, State.CANCELLED: 7 * DAY, State.DISCARDED: 30 * DAY}


@pytest.mark.promise("F62")
def test_retention_in_a_file_is_a_table(folder):
    (folder / "onward.toml").write_text('[retention]\ncompleted = "2h"\ncancelled = 0')

    retention = loaded(folder, retention={"discarded": None}).retention

    assert retention == {State.COMPLETED: 7200.0, State.CANCELLED: 0.0, State.DISCARDED: None}


class TestOverruled:
    def test_a_command_line_beats_even_the_arguments(self):
        with config.overruled({"url": "memory://", "namespace": "other"}):
            settings = config.load({"url": "sqlite:///mine.db", "max_crashes": 7}, environ={})

        assert (settings.url, settings.namespace, settings.max_crashes) == ("memory://", "other", 7)

    def test_only_meanwhile(self):
        with config.overruled({"namespace": "other"}):
            pass

        assert config.load({}, environ={}).namespace == "default"

    def test_its_slips_are_named_as_its_own(self):
        with config.overruled({"namespaze": "x"}), pytest.raises(OptionError, match="the command line: there is no"):
            config.load({}, environ={})
