"""Run the code of one Markdown page as a reader would: block by block, in the current directory.

    python run_page.py docs/index.md

The word after the fence says what a block is:

    python                the blocks of a page share one namespace
    python notebook       the same, as a cell of a notebook: in IPython, while an event loop runs
    bash                  run with `bash -e`
    console               lines after `$ ` are run with `bash -e`; the others, if any, must be what they print
    text output           must be what the block before it printed
    toml, json            must parse
    sql, text, php, zig   shown, not run

`bash no-run <reason>` and `console no-run <reason>` are not run.  `title="jobs.py"` also saves a block under
that name.  In expected output, `...` stands for anything.  Every other tag is an error.
"""

import asyncio
import atexit
import contextlib
import doctest
import functools
import io
import json
import os
import re
import subprocess
import sys
import tomllib
import types
from pathlib import Path
from typing import NamedTuple

_FENCE = re.compile(r"(?P<indent> *)(?P<fence>`{3,}|~{3,}) *(?P<info>.*)")
_TITLE = re.compile(r'\s*title="(?P<name>[^"]+)"')


class PageError(Exception):
    """A block that is not what its tag says."""


class Block(NamedTuple):
    line: int  # of the opening fence
    language: str
    option: str
    title: str | None
    code: str


def run_page(path):
    """Run every block of the page, and stop at the first that is wrong."""
    # A module of its own: what a block defines must be found there when annotations are resolved.
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    printed = ""
    for block in read_blocks(path):
        if block.title:
            Path(block.title).write_text(block.code)
        try:
            printed = _run(block, path, module, printed)
        except PageError as error:
            raise PageError(f"{path}:{block.line}: {error}") from None


def read_blocks(path):
    lines = enumerate(path.read_text().splitlines(), start=1)
    for number, line in lines:
        if not (opening := _FENCE.fullmatch(line)):
            continue
        body = []
        for _, inner in lines:
            if inner.strip() == opening["fence"]:
                break
            body.append(inner.removeprefix(opening["indent"]))
        else:
            raise PageError(f"{path}:{number}: this block is never closed")
        yield _block(number, opening["info"], "".join(f"{code}\n" for code in body))


def _block(line, info, code):
    title = _TITLE.search(info)
    language, _, option = _TITLE.sub("", info).strip().partition(" ")
    return Block(line, language, option, title and title["name"], code)


def _run(block, path, module, printed):
    """Run one block; answers with what it printed, or what was printed before if it is none of those that run."""
    match block.language, block.option.partition(" "):
        case "python", ("", _, _):
            return _run_python(block, path, module)
        case "python", ("notebook", _, ""):
            return _run_cell(block, module)
        case "bash", ("", _, _):
            return _run_bash(block.code)
        case "console", ("", _, _):
            return _run_console(block.code)
        case "bash" | "console", ("no-run", _, reason) if reason:
            return printed
        case "text", ("output", _, ""):
            _compare(block.code, printed)
        case "toml", ("", _, _):
            _parse(tomllib.loads, block.code)
        case "json", ("", _, _):
            _parse(json.loads, block.code)
        case "sql" | "text" | "php" | "zig", ("", _, _):
            pass
        case _:
            tag = f"{block.language} {block.option}".strip()
            raise PageError(f"unknown tag {tag!r}" if tag else "this block has no tag")
    return printed


def _run_python(block, path, module):
    # Blank lines in front keep the page's own line numbers in tracebacks.
    code = compile("\n" * block.line + block.code, str(path), "exec")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, module.__dict__)
    return printed.getvalue()


def _run_cell(block, module):
    """Run a block as the kernel of a notebook does: with one event loop for all cells, in which `await` is allowed."""
    from IPython.core.interactiveshell import InteractiveShell

    os.environ.setdefault("IPYTHONDIR", str(Path.cwd()))
    shell = InteractiveShell.instance(user_module=module)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        cell = shell.run_cell_async(block.code, transformed_cell=shell.transform_cell(block.code))
        _kernels_loop().run_until_complete(cell).raise_error()
    return printed.getvalue()


@functools.cache
def _kernels_loop():
    loop = asyncio.new_event_loop()
    atexit.register(loop.close)
    return loop


def _run_bash(script):
    done = subprocess.run(
        ["bash", "-e"], input=script, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if done.returncode:
        raise PageError(f"exit code {done.returncode}:\n{script}\n{done.stdout}")
    return done.stdout


def _run_console(session):
    lines = session.splitlines(keepends=True)
    printed = _run_bash("".join(line.removeprefix("$ ") for line in lines if line.startswith("$ ")))
    if expected := "".join(line for line in lines if not line.startswith("$ ")):
        _compare(expected, printed)
    return printed


def _compare(expected, printed):
    checker, flags = doctest.OutputChecker(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    if not checker.check_output(expected, printed, flags):
        raise PageError(checker.output_difference(doctest.Example("", expected), printed, flags))


def _parse(parser, code):
    try:
        parser(code)
    except ValueError as error:
        raise PageError(str(error)) from None


if __name__ == "__main__":
    run_page(Path(sys.argv[1]))
