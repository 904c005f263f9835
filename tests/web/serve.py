"""A dashboard on a busy shop, to look at while the page is written: ``python -m tests.web.serve [--port 8321]``.

The shop is on a SQLite file of its own, with a worker of its own; all of it ends with Ctrl-C.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import uvicorn

from onward.cli.application import load
from onward.demo.story import Story
from onward.web import Dashboard, Token, User

TOKENS = {
    "viewer-token-of-the-shop": User("vera", "viewer"),
    "operator-token-of-the-shop": User("olaf", "operator"),
    "admin-token-of-the-shop": User("anna", "admin"),
    "mail-only-token-of-the-shop": User("mia", "operator", ["mail"]),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8321)
    parser.add_argument("--seconds", type=float, default=None, help="how long orders come in")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="onward-shop-", ignore_cleanup_errors=True) as folder:
        url = f"sqlite:///{Path(folder) / 'shop.db'}"
        with load("onward.demo.shop:jobs", {"url": url, "namespace": "default"}) as jobs:
            worker = subprocess.Popen(
                [sys.executable, "-m", "onward", "worker", "onward.demo.shop:jobs", "--url", url, "--processes", "2"]
            )
            story = Story(args.seconds)
            story.start()
            dashboard = Dashboard(
                jobs, auth=Token(TOKENS), title="The shop", log_url="https://logs.example/?q={job_id}"
            )
            for token, user in TOKENS.items():
                print(f"{user.role:9} http://127.0.0.1:{args.port}/#token={token}", flush=True)  # noqa: T201
            try:
                uvicorn.run(dashboard.asgi, port=args.port, log_level="warning")
            finally:
                story.stop()
                worker.terminate()
                worker.wait()


if __name__ == "__main__":
    main()
