"""``onward web``: the dashboard, on a server of its own."""

from __future__ import annotations

import os
import signal
import sys
from argparse import Namespace
from contextlib import suppress
from typing import TYPE_CHECKING

from onward.cli import output, values, web_server
from onward.cli.application import on_store
from onward.cli.command import Command, argument
from onward.cli.exits import CommandError, Exit
from onward.cli.listening import bound

if TYPE_CHECKING:
    from onward.app import Onward

__all__ = ["COMMAND"]

_VARIABLE = "ONWARD_WEB_TOKEN"


def run(app: Onward, args: Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    given = os.environ.get(_VARIABLE)
    token = given or web_server.new_token()
    listening = bound(*args.listen)
    address = web_server.WebAddress(args.listen[0], listening.getsockname()[1])
    try:
        options = {} if args.title is None else {"title": args.title}
        dashboard = web_server.dashboard_of(
            app, address, token=token, hosts=args.allow_host or (), read_only=args.read_only, **options
        )
    except BaseException:
        listening.close()
        raise
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt), web_server.serving(dashboard.asgi, listening) as server:
        _tell(args, address.url if given else f"{address.url}#token={token}", named=bool(given))
        server.join()
        raise CommandError("the server ended by itself: its log says why", Exit.FAILURE)
    return Exit.OK


def _tell(args: Namespace, url: str, *, named: bool) -> None:
    """Print where it is.  A token that the user chose is known to them, and is printed into no log."""
    if args.json:
        output.json_line({"url": url})
    else:
        output.write(url)
    sys.stdout.flush()
    output.say(
        args, f"sign in with the token in {_VARIABLE}" if named else "a person with this address may do everything"
    )
    output.say(args, "Ctrl-C ends it")


def _with_server(args: Namespace) -> int:
    web_server.require_uvicorn()
    return on_store(run)(args)


COMMAND = Command(
    "web",
    "serve the dashboard",
    _with_server,
    (
        argument(
            "--listen",
            "where, as in 127.0.0.1:8321, which is the default; a port alone is this machine only",
            metavar="HOST:PORT",
            type=values.address,
            default=web_server.DEFAULT,
        ),
        argument(
            "--allow-host",
            "a name by which browsers reach it, besides localhost and the address it listens on; repeatable",
            metavar="NAME",
            action="append",
        ),
        argument("--read-only", "people can look and change nothing", action="store_true"),
        argument("--title", "what stands in its head, as in staging", metavar="TEXT"),
    ),
    about=(
        "It prints the address, with a token that it has made: a person with both is an administrator. ONWARD_WEB_TOKEN "
        "names a token of your own, which is not printed. It speaks HTTP without encryption: for other machines, put a "
        "proxy with TLS before it, or mount the dashboard in your application. It needs uvicorn: "
        'pip install "onward[web]". Ctrl-C or SIGTERM ends it, with exit code 0.'
    ),
)
