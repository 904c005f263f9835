"""The command line: one module for each noun; `command` says what a command is, `main` runs one."""

from onward.cli.main import main

__all__ = ["main"]
