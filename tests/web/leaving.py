"""Bulk acts that are held in the middle of a batch, until whoever asked for them has gone."""

import threading

from onward.operate.acts import Acts
from onward.operate.bulk import Bulk


class Held:
    """A bulk act that waits in the middle of one of its batches, until `go_on` is set; `ended`: nobody reads it."""

    def __init__(self, monkeypatch, *, at):
        self.batches = 0
        self.reached, self.go_on, self.ended = threading.Event(), threading.Event(), threading.Event()
        self._at = at
        act, run = Acts.act, Bulk.run
        monkeypatch.setattr(Acts, "act", lambda *args, **words: self._batch() or act(*args, **words))
        monkeypatch.setattr(Bulk, "run", lambda *args, **words: self._watched(run(*args, **words)))

    def _batch(self):
        self.batches += 1
        if self.batches == self._at:
            self.reached.set()
            assert self.go_on.wait(60)

    def _watched(self, lines):
        try:
            yield from lines
        finally:
            self.ended.set()


def noting(asgi, left):
    """Note when the server tells an application that whoever asked for a bulk act is gone."""

    async def noted(scope, receive, send):
        async def received():
            message = await receive()
            if message["type"] == "http.disconnect" and scope["path"].endswith("/bulk/run"):
                left.set()
            return message

        await asgi(scope, received, send)

    return noted
