"""Draw the processes and threads of `onward worker`, their messages and locks, from the code that has them.

    python -m tools.processes_picture check    exit 1 and say why, if picture or page are not what the code says
    python -m tools.processes_picture write    bring both up to date

Where a box stands is drawn by hand below, and what a thread does or a lock guards is said there.  Which threads, messages
and locks there are comes from the source, which is read and not imported.  A thread or a module with locks that has no
sentence here, and a sentence whose subject is gone, are complaints.  Threads are found by their names, `onward-...`.
Locks are looked for in the rooms that a job passes on every store, not in the stores.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from tools.lifecycle import HEAD, STYLE

SOURCE = Path("src/onward")
PICTURE = Path("docs/assets/processes-and-threads.svg")
PAGE = Path("docs/processes-and-threads.md")
BEGIN = "<!-- {}: written by `python -m tools.processes_picture write` -->"
END = "<!-- /{} -->"

WIDTH, HEIGHT = 1000, 900

_SUPERVISOR, _WORKER, _ISOLATED, _ANY = "supervisor", "worker process", "isolated process", "any program"
_TEMPLATE, _WORKER_TEMPLATE = "template", "template of worker processes"


class Thread(NamedTuple):
    """What one thread is for.  ``place``: its box in the picture, if it has one."""

    process: str
    duty: str
    place: tuple[int, int] | None = None


# By file and name.  The main threads have no name of ours and are drawn below.
THREADS: Mapping[tuple[str, str], Thread] = {
    ("supervisor/store_thread.py", "onward-store"): Thread(
        _SUPERVISOR, "Renews the sessions of the processes, gives back what dead ones held, reaps, prunes.", (360, 120)
    ),
    ("supervisor/http.py", "onward-listen"): Thread(
        _SUPERVISOR, "Answers probes and scrapes, with `--listen`; touches the file of `--heartbeat`."
    ),
    ("supervisor/probes.py", "onward-look"): Thread(
        _SUPERVISOR, "Looks at the store for a scrape, at most every 15 seconds; it ends with the look."
    ),
    ("supervisor/child_link.py", "onward-messages"): Thread(
        _WORKER, "Reads the supervisor's messages; when the supervisor is gone, drains the worker.", (135, 340)
    ),
    ("worker/worker.py", "onward-pump"): Thread(
        _WORKER, "Claims and settles, turn by turn: no other thread of the worker does.", (505, 340)
    ),
    ("worker/worker.py", "onward-wake"): Thread(
        _WORKER, "Waits in the store for new jobs while the pump is idle, and wakes it.", (505, 440)
    ),
    ("worker/worker.py", "onward-sweep"): Thread(
        _WORKER, "Reaps and prunes, in a worker without a supervisor.", (505, 490)
    ),
    ("worker/worker.py", "onward-ticker"): Thread(
        _WORKER, "Books what schedules have due, in one process of each supervisor."
    ),
    ("worker/session.py", "onward-renewal"): Thread(
        _WORKER, "Renews the session, where no supervisor does: also that of `process_once` and `drain`.", (505, 390)
    ),
    ("worker/handler_threads.py", "onward-run-"): Thread(
        _WORKER, "Calls sync handlers; there are at most as many as `--concurrency`.", (320, 340)
    ),
    ("worker/handler_tasks.py", "onward-loop"): Thread(
        _WORKER, "The event loop that runs all async handlers of a worker.", (320, 390)
    ),
    ("worker/handler_threads.py", "onward-deadlines"): Thread(
        _WORKER, "Raises time-outs and cancelling in handler threads.", (320, 440)
    ),
    ("worker/loop_watch.py", "onward-loop-watch"): Thread(
        _WORKER, "Reports an async handler that blocks the event loop.", (320, 490)
    ),
    ("worker/diagnostics/stacks.py", "onward-stacks"): Thread(
        _WORKER, "Answers `onward top` and `onward job stack` on a socket for the same user.", (135, 440)
    ),
    ("telemetry/events.py", "onward-events"): Thread(_ANY, "Calls the subscribers of events.", (135, 390)),
    ("security/key_file.py", "onward-keys"): Thread(_ANY, "Looks at the key file now and then.", (135, 490)),
    ("entry/isolated.py", "onward-messages"): Thread(
        _ISOLATED, "Reads the worker's messages; when the worker is gone, ends the process.", (360, 700)
    ),
    ("worker/event_loop.py", "onward-loop"): Thread(_ANY, "The event loop of async handlers in `process_once` and `drain`."),
    ("operate/health/telling.py", "onward-health"): Thread(
        _WORKER, "Compares the checks with those of a minute ago, if a subscriber wants to know."
    ),
    ("cli/web_server.py", "onward-web"): Thread(_ANY, "Serves the dashboard of `onward demo --web` beside the demo."),
    ("handlers/exchange.py", "onward-resolve"): Thread(_WORKER, "Looks up a host name for a `url` job."),
    ("backends/companion/deliveries.py", "onward-messages"): Thread(
        _ANY, "Renews the locks of messages that a broker with a companion has delivered."
    ),
    ("transactions/waiting.py", "onward-transaction"): Thread(
        _WORKER, "Runs the blocking calls of one transaction that an async handler has opened."
    ),
    ("app.py", "onward-closing"): Thread(_ANY, "Closes the store when the last handler has ended, after `close()`."),
}  # fmt: skip

GUARDS: Mapping[str, str] = {
    "attempt/breakers.py": "The last runs of each job that has a breaker, which several threads may settle.",
    "base/ids.py": "The last id of the process: ids rise strictly.",
    "base/interruption.py": "Whether a thread is inside code that an asynchronous exception must not tear apart.",
    "base/ipc.py": "The sending end of a socket: messages are written whole.",
    "client/batch.py": "One chunk of a batch is stored at a time; a task that was cancelled may leave its thread behind.",
    "client/group_commit.py": "The callers' tickets, the one thread that commits, and the callers that wait for it.",
    "job/steps.py": "The names of a run's steps, and the one read of its notes: a handler may run steps beside each other.",
    "supervisor/http.py": "The end of the thread that answers: others wake it.",
    "supervisor/store_thread.py": "The sessions to give back, and the order to stop.",
    "supervisor/boards.py": "The boards: other threads read sessions and counters while the loop replaces processes.",
    "telemetry/events.py": "The subscribers, and the start of the thread that calls them.",
    "telemetry/metrics.py": "The counters.",
    "telemetry/milestones.py": "What a worker has done, for tests.",
    "worker/diagnostics/stacks.py": "Nothing: an event that ends the thread.",
    "worker/event_loop.py": "The start and the end of the event loop.",
    "worker/events.py": "The end of a worker.",
    "worker/handler_tasks.py": "The start of the event loop.",
    "worker/handler_threads.py": "The number of handler threads, each of which waits on a lock of its own; their deadlines.",
    "worker/inflight.py": "The leases in the process: which wait, which run.",
    "worker/inline.py": "The session of `process_once` and `drain`, and those before it.",
    "worker/isolated.py": "Which isolated processes are idle or busy.",
    "worker/isolated_process.py": "That an isolated process is killed only until it is collected.",
    "worker/loop_watch.py": "Nothing: events between the watch and the loop.",
    "worker/pump.py": "Nothing: events that wake the pump or tell that it is idle.",
    "worker/recovery.py": "Nothing: an event that ends the wait for a store that does not answer.",
    "worker/template.py": "One thread starts the template while the others wait; and that it is ended once.",
    "worker/session.py": "The name of the session and until when it is fresh.",
}
ROOMS_WITH_LOCKS = ("base", "client", "job", "attempt", "worker", "supervisor", "entry", "telemetry")


class Channel(NamedTuple):
    """Messages from one process to another: a union of classes in one file."""

    file: str
    union: str
    sender: str
    receiver: str


CHANNELS = (
    Channel("supervisor/messages.py", "DECODE_ABOVE", _SUPERVISOR, _WORKER),
    Channel("supervisor/messages.py", "DECODE_BELOW", _WORKER, _SUPERVISOR),
    Channel("worker/isolated_messages.py", "FromWorker", _WORKER, _ISOLATED),
    Channel("worker/isolated_messages.py", "FromProcess", _ISOLATED, _WORKER),
    Channel("worker/template_messages.py", "FromWorker", _WORKER, _TEMPLATE),
    Channel("worker/template_messages.py", "FromTemplate", _TEMPLATE, _WORKER),
    Channel("supervisor/template_messages.py", "FromSupervisor", _SUPERVISOR, _WORKER_TEMPLATE),
    Channel("supervisor/template_messages.py", "FromTemplate", _WORKER_TEMPLATE, _SUPERVISOR),
)


class Message(NamedTuple):
    channel: Channel
    name: str
    meaning: str


class Facts(NamedTuple):
    """What the code says."""

    threads: frozenset[tuple[str, str]]
    messages: tuple[Message, ...]
    locks: Mapping[str, tuple[str, ...]]


def main(arguments: Sequence[str] | None = None, root: Path = Path()) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.processes_picture", description="Check or draw the processes."
    )
    parser.add_argument("command", choices=["check", "write"])
    command = parser.parse_args(arguments).command

    facts = read(root / SOURCE)
    complaints = find_complaints(facts)
    if not complaints:
        wanted = {PICTURE: picture(facts), PAGE: with_tables((root / PAGE).read_text(encoding="utf-8"), facts)}
        for path, text in wanted.items():
            if command == "write":
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text, encoding="utf-8")
            elif not (root / path).is_file() or (root / path).read_text(encoding="utf-8") != text:
                complaints.append(f"{path}: out of date, run `python -m tools.processes_picture write`")

    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


def find_complaints(facts: Facts) -> list[str]:
    """What the code has and this file does not, and the reverse."""
    me = "tools/processes_picture.py"
    return [
        *(
            f"{me}: no sentence for the thread {name} of {file}"
            for file, name in sorted(facts.threads - THREADS.keys())
        ),
        *(f"{me}: {file} has no thread {name}" for file, name in sorted(THREADS.keys() - facts.threads)),
        *(f"{me}: no sentence for the locks of {file}" for file in sorted(facts.locks.keys() - GUARDS.keys())),
        *(
            f"{message.channel.file}: {message.name} has no docstring"
            for message in facts.messages
            if not message.meaning
        ),
        *(f"{me}: {file} has no locks" for file in sorted(GUARDS.keys() - facts.locks.keys())),
    ]


# Reading the source


def read(package: Path) -> Facts:
    threads: set[tuple[str, str]] = set()
    locks: dict[str, tuple[str, ...]] = {}
    for path in sorted(package.rglob("*.py")):
        file = path.relative_to(package).as_posix()
        if file.startswith(("testing/", "demo/")):
            continue
        text = path.read_text(encoding="utf-8")
        if "threading.Thread(" in text or "ThreadPoolExecutor(" in text:
            threads.update((file, name) for name in re.findall(r'(?:name=f?|, )"(onward-[a-z-]+)', text))
        if file.split("/")[0] in ROOMS_WITH_LOCKS and (found := _locks(ast.parse(text))):
            locks[file] = found
    messages = tuple(message for channel in CHANNELS for message in _messages(package, channel))
    return Facts(frozenset(threads), messages, locks)


def _locks(tree: ast.Module) -> tuple[str, ...]:
    """The names that are given to locks, conditions and events."""
    found: dict[str, None] = {}
    for target, value in _assignments(ast.walk(tree)):
        if isinstance(value, ast.Call) and re.fullmatch(
            r"threading\.(R?Lock|Condition|Event)", ast.unparse(value.func)
        ):
            found[ast.unparse(target).removeprefix("self.")] = None
    return tuple(found)


def _assignments(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Targets with their values, those of ``a, b = 1, 2`` one by one."""
    for node in nodes:
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            yield node.target, node.value
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    yield from zip(target.elts, node.value.elts, strict=True)
                else:
                    yield target, node.value


def _messages(package: Path, channel: Channel) -> Iterator[Message]:
    tree = ast.parse((package / channel.file).read_text(encoding="utf-8"))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    (union,) = (value for target, value in _assignments(tree.body) if ast.unparse(target) == channel.union)
    for name in re.findall(r"\w+", ast.unparse(union)):
        if name in classes:
            yield Message(channel, name, (ast.get_docstring(classes[name]) or "").split("\n\n")[0])


# The page


def with_tables(page: str, facts: Facts) -> str:
    """The page with its tables made anew."""
    for name, lines in (("threads", _threads()), ("messages", _message_rows(facts)), ("locks", _lock_rows(facts))):
        begin, end = BEGIN.format(name), END.format(name)
        before, found, rest = page.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise SystemExit(f"{PAGE}: the lines {begin!r} and {end!r} are missing")
        page = "".join([before, begin, "\n\n", *lines, "\n", end, after])
    return page


def _threads() -> Iterator[str]:
    yield "| thread | process | file | what it does |\n|---|---|---|---|\n"
    for process in (_SUPERVISOR, _WORKER, _ISOLATED, _ANY):
        for (file, name), thread in THREADS.items():
            if thread.process == process:
                yield f"| `{_full(name)}` | {process} | {_link(file)} | {thread.duty} |\n"


def _message_rows(facts: Facts) -> Iterator[str]:
    yield "| message | from | to | meaning |\n|---|---|---|---|\n"
    for channel, name, meaning in facts.messages:
        text = " ".join(meaning.replace("``", "`").split())
        yield f"| `{name}` | {channel.sender} | {channel.receiver} | {text} |\n"


def _lock_rows(facts: Facts) -> Iterator[str]:
    yield "| file | locks, conditions, events | what they guard |\n|---|---|---|\n"
    for file, names in facts.locks.items():
        yield f"| {_link(file)} | {', '.join(f'`{name}`' for name in names)} | {GUARDS[file]} |\n"


def _link(file: str) -> str:
    return f"[`{file}`](../{(SOURCE / file).as_posix()})"


def _full(name: str) -> str:
    return name + "N" if name.endswith("-") else name


# The picture

_IN_WORDS = (
    "The supervisor, its worker processes, isolated processes and the templates from which both are forked, the store and a "
    "program that enqueues, with their threads and what they send each other."
)


def picture(facts: Facts) -> str:
    """The SVG.  The same code gives the same bytes."""
    names = [[each.name for each in facts.messages if each.channel == channel] for channel in CHANNELS]
    down, up, out, back, asked, told, workers_asked, workers_told = names
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t d">',
        '<title id="t">Processes and threads of onward worker</title>',
        f'<desc id="d">{_IN_WORDS}</desc>',
        f"<style>\n{STYLE}\n</style>",
        f"<defs>{HEAD}</defs>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="10"/>',
        *_process(30, 40, 560, 130, "supervisor: no code of the application"),
        *_process(30, 290, 560, 240, "worker process × N: one Worker"),
        *_process(30, 650, 560, 90, "isolated process: one run at a time"),
        *_process(610, 650, 170, 90, "template"),
        *_process(30, 780, 940, 90, "template of worker processes"),
        *_process(800, 40, 170, 490, "store"),
        *_process(800, 650, 170, 90, "program"),
        *_thread("main: the loop", 150, 120),
        *_thread("main: the handler", 150, 700),
        *_thread("main: forks", 695, 700),
        *_thread("enqueue", 885, 700),
        *_thread("main: forks", 150, 840),
    ]
    for (_, name), thread in THREADS.items():
        if thread.place is not None:
            lines.extend(_thread(_full(name), *thread.place))
    lines += [
        *_arrow("M60 170 V284", [f"{each}" for each in down], 70, 196),
        *_arrow("M250 290 V176", up, 260, 192),
        *_arrow("M470 290 V176", ["board: begun runs", "(shared memory)"], 480, 226),
        *_arrow("M60 530 V644", out, 70, 580),
        *_arrow("M250 650 V536", back, 260, 545),
        *_arrow("M590 522 H630 V644", asked, 637, 600),
        *_arrow("M700 650 V508 H596", told, 707, 552),
        *_arrow("M610 720 H596", [], 0, 0),
        *_arrow("M30 80 H18 V820 H24", [], 0, 0),
        *_side_by_side(workers_asked, 250, 826),
        *_arrow("M30 850 H8 V60 H24", [], 0, 0),
        *_side_by_side(workers_told, 250, 856),
        *_arrow("M440 120 H794", ["extend, reap, prune"], 610, 112),
        *_arrow("M585 340 H794", ["turn: settle, claim"], 610, 332),
        *_arrow("M585 390 H794", ["extend"], 610, 382),
        *_arrow("M585 440 H794", ["wait"], 610, 432),
        *_arrow("M585 490 H794", ["reap, prune"], 610, 482),
        *_arrow("M885 650 V536", ["enqueue"], 895, 600),
    ]
    return "\n".join([*lines, "</svg>", ""])


def _process(x: int, y: int, width: int, height: int, name: str) -> Iterator[str]:
    yield f'<rect class="finished" x="{x}" y="{y}" width="{width}" height="{height}" rx="12"/>'
    yield f'<text class="name" style="text-anchor: start" x="{x + 14}" y="{y + 22}">{escape(name)}</text>'


def _thread(name: str, x: int, y: int) -> Iterator[str]:
    """A thread around this middle."""
    yield f'<rect class="live" x="{x - 80}" y="{y - 18}" width="160" height="36" rx="9"/>'
    yield f'<text class="label" x="{x}" y="{y + 4}" text-anchor="middle">{escape(name)}</text>'


def _arrow(path: str, names: Sequence[str], x: int, y: int) -> Iterator[str]:
    yield f'<path class="arrow" d="{path}" marker-end="url(#head)"/>'
    for line, name in enumerate(names):
        yield f'<text class="label" x="{x}" y="{y + 17 * line}">{escape(name)}</text>'


def _side_by_side(names: Sequence[str], x: int, y: int) -> Iterator[str]:
    for column, name in enumerate(names):
        yield f'<text class="label" x="{x + 145 * column}" y="{y}">{escape(name)}</text>'


if __name__ == "__main__":
    sys.exit(main())
