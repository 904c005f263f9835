"""A proxy between a client and a server's socket, which can lose answers, cut connections and let everything stand still."""

import contextlib
import socket
import tempfile
import threading
from pathlib import Path


class Proxy:
    """Passes everything on, until it is told otherwise."""

    def __init__(self, server, folder):
        self.folder = folder
        self._server = str(server.folder / server.socket_name)
        self.url = server.url_through(folder)
        self._pairs = []
        self._open = threading.Event()
        self._open.set()
        self._deaf = False
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / server.socket_name))
        self._listener.listen()
        self._start(self._accept)

    def lose_the_next_answer(self):
        """What is asked from now on arrives and is done, but no answer comes back: the connection breaks instead."""
        self._deaf = True

    def hold(self):
        """Nothing passes, and neither end is told."""
        self._open.clear()

    def go_on(self):
        self._open.set()

    def cut(self):
        for pair in self._pairs:
            _close(*pair)
        self._pairs.clear()

    def close(self):
        self._open.set()
        _close(self._listener)
        self.cut()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self._server)
            except OSError:
                _close(client, server)
                continue
            self._pairs.append((client, server))
            self._start(self._pass_on, client, server, False)
            self._start(self._pass_on, server, client, True)

    def _pass_on(self, source, target, answers):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._open.wait()
                if answers and self._deaf:
                    self._deaf = False
                    break
                target.sendall(data)
        _close(source, target)

    def _start(self, target, *arguments):
        threading.Thread(target=target, args=arguments, daemon=True).start()


@contextlib.contextmanager
def proxy_to(server):
    with tempfile.TemporaryDirectory(prefix="proxy-") as folder:
        proxy = Proxy(server, Path(folder))
        try:
            yield proxy
        finally:
            proxy.close()


def _close(*sockets):
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
