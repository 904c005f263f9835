"""Jobs that need no function of their own: a program, an event, a command, a URL.

    python examples/handlers.py

Everything is off until it is allowed: which handlers there are, what they may do, and on which queues they run.
Everything that is told is also asserted.
"""

import logging
from dataclasses import dataclass

from onward import Fixed, JobContext, Onward
from onward.handlers import TypedHandler

logging.getLogger("onward").setLevel(logging.CRITICAL + 1)  # what is refused here is refused on purpose


@dataclass
class OrderPaid:
    order: int
    cents: int


@dataclass
class Picture:
    path: str
    width: int = 800


class Resize(TypedHandler[Picture]):
    """A handler of the shop's own, with a typed payload."""

    payload_type = Picture

    def before_run(self, ctx: JobContext) -> None:
        if ctx.attempt == 1:
            raise OSError("the disk is full")  # fails the attempt; `handle` is not called

    def handle(self, ctx: JobContext, payload: Picture) -> str:
        return f"{payload.path} is {payload.width} wide, at attempt {ctx.attempt}"


jobs = Onward(
    "memory://",
    handlers={
        "shell": {"allow": {"/bin/echo": ["-n"]}},
        "url": {"hosts": ["*"], "schemes": ["http", "https"]},
        "event": {},
        "command": {},
        "resize": Resize(),
    },
    queue_handlers={"ops": ["shell", "command"], "events": ["event"], "hooks": ["url"], "pictures": ["resize"]},
)


@jobs.listen("order.paid")
def send_receipt(event: OrderPaid) -> str:
    return f"receipt for order {event.order}"


@jobs.command("stock.count")
def count_stock(shelf: str) -> int:
    return len(shelf)


def main() -> None:
    with jobs:
        shell = jobs.define("shell", ["/bin/echo", "-n", "$HOME; `id`"]).queue("ops").dispatch()
        event = jobs.define("event", {"name": "order.paid", "data": OrderPaid(42, 1999)}).queue("events").dispatch()
        command = (
            jobs.define("command", {"name": "stock.count", "arguments": {"shelf": "teapots"}}).queue("ops").dispatch()
        )
        picture = jobs.define("resize", Picture("cat.jpg")).queue("pictures").max_retries(1).retry(Fixed(0)).dispatch()
        refused = [
            jobs.define("shell", ["/bin/cat", "/etc/passwd"]).queue("ops").dispatch(),
            jobs.define("shell", ["/bin/echo", "-e", "\\033[2J"]).queue("ops").dispatch(),
            jobs.define("shell", ["/bin/echo", "hi"]).queue("hooks").dispatch(),
            jobs.define("command", "os.system").queue("ops").dispatch(),
            jobs.define("event", {"name": "order.lost"}).queue("events").dispatch(),
            jobs.define("url", {"url": "http://localhost/admin"}).queue("hooks").dispatch(),
        ]
        jobs.drain()

        assert shell.result()["stdout"] == "$HOME; `id`"  # there is no shell
        assert event.result() == {"send_receipt": "receipt for order 42"}
        assert command.result() == 7
        for handle in (shell, event, command, picture):
            print(f"{handle.record().job:8} {handle.result()}")

        print("\nRefused, kept as dead letters, never retried:")
        for handle in refused:
            record = handle.record()
            assert (record.state, record.attempts) == ("discarded", 0)
            print(f"{record.job:8} {record.reason}")
        print(f"\n{jobs.metrics.count('jobs_refused')} jobs refused, none ran.")


if __name__ == "__main__":
    main()
