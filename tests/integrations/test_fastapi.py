"""The guide for FastAPI: when a client hears of a job it exists, and of a request that failed there is none."""

import asyncio
import importlib.util
import sys

import pytest

from tests.docs.run_page import read_blocks


@pytest.fixture
def shop(request, tmp_path, monkeypatch):
    """Import the shop of the page, with changes to its source: ``shop(("old", "new"))``."""
    (source,) = [
        block.code for block in read_blocks(request.config.rootpath / "docs/frameworks.md") if block.title == "shop.py"
    ]

    def load(*changes):
        code = source
        for old, new in changes:
            assert old in code
            code = code.replace(old, new)
        path = tmp_path / "shop.py"
        path.write_text(code)
        spec = importlib.util.spec_from_file_location("guide_to_fastapi", path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return module

    return load


WITHOUT_WORKER = ("    async with jobs.worker(concurrency=4):", "    with jobs.connect():")


def ask(shop, path):
    """Call the application as a server does: its status, and how many jobs there were when the response began."""
    seen = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        if message["type"] == "http.response.start":
            seen.append((message["status"], len(shop.jobs.list())))

    async def called():
        scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": []}
        async with shop.lifespan(shop.app):
            await shop.app(scope, receive, send)
            seen.append(len(shop.jobs.list()))

    asyncio.run(called())
    return seen


@pytest.mark.promise("S167")
def test_a_job_exists_before_its_response_is_sent(shop):
    assert ask(shop(WITHOUT_WORKER), "/orders/7") == [(200, 1), 1]


@pytest.mark.promise("S167")
def test_of_a_request_that_failed_there_is_no_job(shop):
    assert ask(shop(WITHOUT_WORKER), "/orders/13") == [(402, 0), 0]


def test_without_the_scope_of_the_guide_the_response_is_sent_first(shop):
    """What the guide warns of: if FastAPI changes it, the page is wrong."""
    assert ask(shop(WITHOUT_WORKER, (', scope="function"', "")), "/orders/7") == [(200, 0), 1]
