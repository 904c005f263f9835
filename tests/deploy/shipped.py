"""The files of `deploy/` as their readers see them: parsed, and the command lines that they hold."""

import configparser
import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import NamedTuple

import yaml

FOLDER = Path(__file__).parents[2] / "deploy"
FILES = sorted(path for path in FOLDER.rglob("*") if path.is_file())


class CommandLine(NamedTuple):
    file: str
    words: list[str]  # after the program's name


def unit(name):
    """The sections of a unit, each a table of lists: systemd allows a line to be repeated."""
    sections, current = {}, None
    for line in (FOLDER / "systemd" / name).read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("["):
            current = sections.setdefault(line.strip("[]"), {})
        else:
            key, equals, value = line.partition("=")
            assert equals, line
            current.setdefault(key, []).append(value)
    return sections


def instructions():
    """The lines of the Containerfile: each instruction with what follows it."""
    text = re.sub(r"^#.*\n", "", (FOLDER / "container" / "Containerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line.strip()]


def documents(name):
    """The documents of a YAML file."""
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def compose():
    (document,) = documents("container/compose.yaml")
    return document


def pod(name):
    (document,) = documents(f"kubernetes/{name}")
    return document["spec"]["template"]["spec"]


def fly():
    return tomllib.loads((FOLDER / "fly" / "fly.toml").read_text())


def supervised():
    parser = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=(";",))
    parser.read(FOLDER / "supervisor" / "onward.conf")
    return parser["program:onward"]


def procfile():
    lines = (FOLDER / "heroku" / "Procfile").read_text().splitlines()
    return dict(re.fullmatch(r"(\w+): (.+)", line).groups() for line in lines)


def command_lines():
    """Every call of `onward` that a file makes."""
    for name in ("onward.service", "onward@.service", "onward-prune.service"):
        (line,) = unit(name)["Service"]["ExecStart"]
        yield _of(name, shlex.split(line))
    (started,) = [rest for word, rest in instructions() if word == "CMD"]
    yield _of("Containerfile", json.loads(started))
    yield _of("compose.yaml", compose()["services"]["migrate"]["command"])
    for name in ("worker.yaml", "migrate.yaml"):
        spec = pod(name)
        for container in spec.get("initContainers", []) + spec["containers"]:
            yield _of(name, container["command"])
    for line in procfile().values():
        words = [word for word in shlex.split(line) if word != "exec" and not re.match(r"\w+=", word)]
        yield _of("Procfile", words)
    yield _of("fly.toml", shlex.split(fly()["processes"]["worker"]))
    yield _of("fly.toml", shlex.split(fly()["deploy"]["release_command"]))
    yield _of("onward.conf", shlex.split(supervised()["command"]))


def _of(file, words):
    program, *rest = words
    assert Path(program).name == "onward", (file, words)
    return CommandLine(file, rest)
