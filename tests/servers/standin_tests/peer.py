"""A client that says exactly what a test wants it to say."""

import base64
import hashlib
import hmac
import socket
import time
from urllib.parse import quote_plus, urlencode

from tests.servers.servicebus_standin.codec import Described, ULong, decode_at, encode
from tests.servers.servicebus_standin.framing import AMQP_HEADER, frame
from tests.servers.servicebus_standin.message import read_request
from tests.servers.servicebus_standin.performatives import Attach, Begin, Disposition, Flow, Open, Transfer, read

KEY = "bm90LWEtc2VjcmV0"  # the stand-in's own, unless it is told another


def message(body=b"x", **properties):
    return encode(Described(ULong(0x73), [properties.get("message_id")])) + encode(Described(ULong(0x75), body))


def token(resource, *, key=KEY, expiry=None):
    signed = f"{quote_plus(resource)}\n{expiry or int(time.time()) + 60}"
    signature = base64.b64encode(hmac.new(key.encode(), signed.encode(), hashlib.sha256).digest())
    fields = {"sr": resource, "sig": signature, "se": signed.partition("\n")[2], "skn": "standin"}
    return f"SharedAccessSignature {urlencode(fields)}"


def terminus(code, address):
    return Described(ULong(code), [address])


class Peer:
    """One connection with one session."""

    def __init__(self, bus, *, max_frame_size=65536, idle_time_out=None, window=1000):
        self.socket = socket.create_connection((bus.host, bus.port), timeout=5)
        self.stream = self.socket.makefile("rwb")
        self.deliveries = 0
        self.raw_fields = []
        self.socket.sendall(AMQP_HEADER)
        assert self.stream.read(8) == AMQP_HEADER
        self.say(Open(container_id="peer", max_frame_size=max_frame_size, idle_time_out=idle_time_out))
        self.expect(Open)
        self.say(Begin(next_outgoing_id=0, incoming_window=window, outgoing_window=1000))
        self.expect(Begin)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()
        self.socket.close()

    def say(self, said, payload=b""):
        self.socket.sendall(frame(0, said.encoded() + payload))

    def hear(self):
        """The next thing said; None is a heartbeat."""
        head = self.stream.read(8)
        if not head:
            raise EOFError
        body = self.stream.read(int.from_bytes(head[:4], "big") - 8)
        if not body:
            return None, b""
        self.raw_fields.append(len(decode_at(body, 0)[0].value))
        return read(body)

    def expect(self, kind):
        said, payload = self.hear()
        assert isinstance(said, kind), said
        return (said, payload) if kind is Transfer else said

    def attach_sender(self, address, handle=0):
        self.say(Attach(name=f"s{handle}", handle=handle, role=False, target=terminus(0x29, address)))
        return self.expect(Attach)

    def attach_receiver(self, address, handle=1, *, settle_mode=0, source=None):
        self.say(
            Attach(
                name=f"r{handle}",
                handle=handle,
                role=True,
                snd_settle_mode=settle_mode,
                rcv_settle_mode=1,
                source=source or terminus(0x28, address),
                target=terminus(0x29, "here"),
            )
        )
        return self.expect(Attach)

    def flow(self, handle, credit, *, delivery_count=0, drain=None, window=1000, seen=0):
        self.say(
            Flow(
                next_incoming_id=seen,
                incoming_window=window,
                next_outgoing_id=0,
                outgoing_window=1000,
                handle=handle,
                delivery_count=delivery_count,
                link_credit=credit,
                drain=drain,
            )
        )

    def transfer(self, handle, payload, **fields):
        number, self.deliveries = self.deliveries, self.deliveries + 1
        self.say(Transfer(handle=handle, delivery_id=number, delivery_tag=b"t", **fields), payload)

    def log_in(self, resource="sb://anywhere/", **options):
        """Put a token, and give back the status."""
        self.attach_sender("$cbs", handle=90)
        self.expect(Flow)
        self.attach_receiver("$cbs", handle=91)
        self.flow(91, 10)
        self.transfer(90, message(message_id="put") + encode(Described(ULong(0x77), token(resource, **options))))
        assert self.expect(Disposition).state.descriptor == 0x24
        _, payload = self.expect(Transfer)
        _, application, _ = read_request(payload)
        return application["status-code"]

    def open_mail(self, **options):
        assert self.log_in() == 202
        self.attach_sender("mail")
        self.expect(Flow)
        self.attach_receiver("mail", **options)
        return self

    def send(self, body=b"x"):
        self.transfer(0, message(body), settled=True)
