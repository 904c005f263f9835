"""Servers that count: for HTTP, for whatever is sent to a socket, and for names."""

import contextlib
import socket
import ssl
import struct
import threading
from ipaddress import ip_address


class Server:
    """Answers every connection with what ``answer(request)`` gives: bytes, or an iterator of them."""

    def __init__(self, answer, *, host="127.0.0.1", port=0, tls=None):
        self._answer = answer
        self._tls = tls
        self._listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.port = self._listening.getsockname()[1]
        self.connections = 0
        self.requests = []
        self.names = []  # asked for in handshakes
        self._open = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self.connections += 1
                self._open.append(connection)
                threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection):
        with contextlib.suppress(OSError), connection:
            if self._tls is not None:
                self._tls.sni_callback = lambda _, name, __: self.names.append(name)
                connection = self._tls.wrap_socket(connection, server_side=True)
            request = _read_request(connection)
            self.requests.append(request)
            said = self._answer(request)
            for part in [said] if isinstance(said, bytes) else said:
                connection.sendall(part)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)  # until the other side is done as well
            connection.close()

    def close(self):
        for each in (self._listening, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def _read_request(connection):
    data = b""
    while b"\r\n\r\n" not in data:
        data += _received(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:])
    while len(body) < int(headers.get("Content-Length", 0)):
        body += _received(connection)
    method, path, _ = lines[0].split(" ")
    return {"method": method, "path": path, "headers": headers, "body": body}


def _received(connection):
    chunk = connection.recv(65536)
    if not chunk:
        raise ConnectionError
    return chunk


def http(status=200, body=b"hello", **headers):
    """An answer as it is sent."""
    fields = {"Content-Length": str(len(body)), **{name.replace("_", "-"): value for name, value in headers.items()}}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value is not None)
    return f"HTTP/1.1 {status} Whatever\r\n{head}\r\n".encode() + body


class NameServer:
    """A DNS server: ``answers`` holds, by name, what it says the first time, the second time, and the last for ever."""

    def __init__(self, answers):
        self._answers = answers
        self.asked = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.place = self._socket.getsockname()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with self._socket:
            while True:
                question, client = self._socket.recvfrom(512)
                if not question:  # told to end
                    return
                self._socket.sendto(self._reply(question), client)

    def _reply(self, question):
        name, end = _read_name(question, 12)
        (kind,) = struct.unpack_from("!H", question, end)
        times = sum(each == (name, kind) for each in self.asked)
        self.asked.append((name, kind))
        said = self._answers.get(name, [[]])
        addresses = [ip_address(text) for text in said[min(times, len(said) - 1)]]
        fitting = [each for each in addresses if each.version == (4 if kind == 1 else 6)]
        head = question[:2] + struct.pack("!HHHHH", 0x8180, 1, len(fitting), 0, 0)
        records = b"".join(
            struct.pack("!HHHIH", 0xC00C, kind, 1, 0, len(each.packed)) + each.packed for each in fitting
        )
        return head + question[12 : end + 4] + records

    def resolve(self, host, port):
        """Ask it for a name, as a resolver does: nothing is remembered, since every answer may live for 0 seconds."""
        return [address for kind in (1, 28) for address in self._ask(host, kind)]

    def _ask(self, host, kind):
        labels = b"".join(bytes([len(label)]) + label.encode() for label in host.split("."))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(30)
            client.sendto(
                b"\x12\x34" + struct.pack("!HHHHH", 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", kind, 1),
                self.place,
            )
            answer = client.recv(512)
        (count,) = struct.unpack_from("!H", answer, 6)
        _, at = _read_name(answer, 12)
        at += 4
        for _ in range(count):
            (size,) = struct.unpack_from("!H", answer, at + 10)
            yield str(ip_address(answer[at + 12 : at + 12 + size]))
            at += 12 + size

    def close(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.sendto(b"", self.place)


def _read_name(message, at):
    labels = []
    while message[at]:
        labels.append(message[at + 1 : at + 1 + message[at]].decode())
        at += 1 + message[at]
    return ".".join(labels), at + 1


def server_tls(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context
