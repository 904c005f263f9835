"""A context by hand, and servers that are closed when a test has ended."""

from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from onward.job.context import JobContext
from tests.handlers.servers import NameServer, Server


@pytest.fixture
def a_context():
    def a_context(payload, timeout=None):
        deadline = None if timeout is None else datetime.now(UTC) + timedelta(seconds=timeout)
        return JobContext(
            id="the-id",
            job="handler",
            name="handler",
            queue="ops",
            attempt=1,
            max_retries=0,
            payload=msgspec.json.encode(payload),
            meta={},
            delivery=1,
            deadline=deadline,
        )

    return a_context


@pytest.fixture
def serve():
    """Start a server: ``serve(lambda request: http(200))``."""
    with ExitStack() as stack:

        def serve(answer, **options):
            server = Server(answer, **options)
            stack.callback(server.close)
            return server

        yield serve


@pytest.fixture
def name_server():
    """Start a name server: ``name_server({"shop.example": [["192.0.2.1"], ["127.0.0.1"]]})``."""
    with ExitStack() as stack:

        def name_server(answers):
            server = NameServer(answers)
            stack.callback(server.close)
            return server

        yield name_server
