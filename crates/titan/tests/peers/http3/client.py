"""HTTP/3: aioquic as a client of the gateway.

    client.py CASE ADDRESS AUTHORITY

CASE is a function below, ADDRESS where the gateway listens, and AUTHORITY the file with its certificate, which is for localhost. Behind
the gateway is gohttp.
"""

import asyncio
import json
import os
import sys

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, StreamReset
from aioquic.quic.packet import QuicProtocolVersion
from aioquic.tls import Epoch

# How long a case may take; none takes so long when all is well.
PATIENCE = 120
# A version of QUIC that nobody has: such are reserved for this (RFC 9000 section 15).
UNKNOWN_VERSION = 0x5A5A5A5A
REQUEST_CANCELLED = 0x10C


class Exchange:
    """A request, and what has come of it so far."""

    def __init__(self, stream):
        self.stream = stream
        self.status = None
        self.trailers = {}
        self.body = bytearray()
        self.fault = None
        self.ended = False
        self.news = asyncio.Event()

    def take(self, event):
        if isinstance(event, DataReceived):
            self.body += event.data
        elif isinstance(event, HeadersReceived) and self.status is None:
            self.status = int(dict(event.headers)[b":status"])
        elif isinstance(event, HeadersReceived):
            self.trailers = dict(event.headers)
        self.ended |= event.stream_ended
        self.news.set()

    def fail(self, fault):
        self.fault = fault
        self.news.set()

    async def until(self, is_so):
        while not is_so():
            assert self.fault is None and not self.ended, f"{self.fault}: {self.status} {bytes(self.body[:300])}"
            self.news.clear()
            await self.news.wait()

    async def whole(self):
        """Waits for the end of the response, which has to be 200."""
        await self.until(lambda: self.ended)
        assert self.status == 200, f"{self.status} {bytes(self.body[:300])}"
        return self

    async def seen(self):
        """What gohttp has seen of the request."""
        await self.whole()
        return json.loads(self.body)

    async def is_echo(self, body):
        await self.whole()
        assert self.body == body, f"{len(self.body)} bytes of {len(body)}, or others"


class Client(QuicConnectionProtocol):
    """A connection."""

    def __init__(self, quic):
        super().__init__(quic)
        self.quic = quic
        self.h3 = H3Connection(quic)
        self.exchanges = {}
        # The responses that have ended, in that order.
        self.ended = []

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            for exchange in self.exchanges.values():
                exchange.fail(f"closed with {event.error_code:#x} {event.reason_phrase}")
        elif isinstance(event, StreamReset) and event.stream_id in self.exchanges:
            self.exchanges[event.stream_id].fail(f"reset with {event.error_code:#x}")
        for told in self.h3.handle_event(event):
            exchange = self.exchanges[told.stream_id]
            exchange.take(told)
            if exchange.ended:
                self.ended.append(exchange)

    def ask(self, method, path, fields=(), ends=True):
        """Sends the head of a request."""
        stream = self.quic.get_next_available_stream_id()
        self.exchanges[stream] = Exchange(stream)
        head = [(b":method", method), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", path)]
        self.h3.send_headers(stream, [*head, *fields], end_stream=ends)
        self.transmit()
        return self.exchanges[stream]

    def get(self, path, *fields):
        return self.ask(b"GET", path, fields)

    def send(self, exchange, body, ends=True):
        self.h3.send_data(exchange.stream, body, end_stream=ends)
        self.transmit()

    def echo(self, body, *fields):
        """Asks for a body to come back."""
        exchange = self.ask(b"POST", b"/mirror", fields, ends=False)
        self.send(exchange, body)
        return exchange

    async def echo_in_two(self, body, between):
        """Asks for a body to come back, and does something while half of it has."""
        exchange = self.ask(b"POST", b"/mirror", ends=False)
        half = len(body) // 2
        self.send(exchange, body[:half], ends=False)
        await exchange.until(lambda: len(exchange.body) == half)
        await between()
        self.send(exchange, body[half:])
        await exchange.is_echo(body)

    async def take_port(self):
        """Sends from a port of its own from now on; what still comes to the old one is lost."""
        before = self._transport
        await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, local_addr=("127.0.0.1", 0))
        if before is not None:
            before.close()


async def connect(address, authority, **options):
    configuration = QuicConfiguration(alpn_protocols=["h3"], server_name="localhost", **options)
    configuration.load_verify_locations(authority)
    client = Client(QuicConnection(configuration=configuration))
    await client.take_port()
    client.connect(address)
    await client.wait_connected()
    return client


async def requests(connect):
    client = await connect()
    seen = await client.get(b"/a?b=c", (b"x-field", b"value")).seen()
    assert (seen["Method"], seen["Target"], seen["Host"]) == ("GET", "/a?b=c", "localhost"), seen
    assert seen["Header"]["X-Field"] == ["value"] and seen["Header"]["X-Forwarded-Proto"] == ["https"], seen
    body = os.urandom(10_000_000)
    await client.echo(body, (b"content-length", b"%d" % len(body))).is_echo(body)


async def trailers(connect):
    client = await connect()
    exchange = client.ask(b"POST", b"/", [(b"trailer", b"x-sum"), (b"te", b"trailers")], ends=False)
    client.send(exchange, b"body", ends=False)
    client.h3.send_headers(exchange.stream, [(b"x-sum", b"of the request")], end_stream=True)
    client.transmit()
    seen = await exchange.seen()
    assert (seen["BodyLength"], seen["Trailer"]) == (4, {"X-Sum": ["of the request"]}), seen
    response = await client.get(b"/trailers", (b"te", b"trailers")).whole()
    assert len(response.body) == 1000 and list(response.trailers) == [b"x-sum"], response.trailers


async def parallel(connect):
    """As many requests at once as a client may have open by default, or nearly."""
    client = await connect()
    bodies = [os.urandom(20_000) for _ in range(100)]
    exchanges = [client.echo(body) for body in bodies]
    for exchange, body in zip(exchanges, bodies):
        await exchange.is_echo(body)


async def cancellation(connect):
    """Behind /one is one connection: a request that was given up has to leave it to the next."""
    client = await connect()
    for key in range(5):
        exchange = client.get(b"/one/events?count=2&key=%d" % key)
        await exchange.until(lambda: exchange.body)
        client.quic.stop_stream(exchange.stream, REQUEST_CANCELLED)
        client.transmit()
        # An upload that is given up in its middle.
        upload = client.ask(b"POST", b"/one/mirror", ends=False)
        client.send(upload, b"some", ends=False)
        await upload.until(lambda: upload.body == b"some")
        client.quic.reset_stream(upload.stream, REQUEST_CANCELLED)
        client.quic.stop_stream(upload.stream, REQUEST_CANCELLED)
        client.transmit()
    await client.get(b"/one/").seen()


async def dynamic_table(connect):
    """The encoder puts fields into the dynamic table of the gateway once it has met them before, and refers to them."""
    client = await connect()
    fields = [(b"x-field-%d" % number, os.urandom(20).hex().encode()) for number in range(20)]
    expected = {name.decode().title(): [value.decode()] for name, value in fields}
    for _ in range(10):
        for exchange in [client.get(b"/", *fields) for _ in range(10)]:
            header = (await exchange.seen())["Header"]
            assert expected.items() <= header.items(), header
    instructions, acknowledgements = client.h3._encoder_bytes_sent, client.h3._decoder_bytes_received
    assert instructions > 20 * 20, f"{instructions} bytes of instructions: the table is not used"
    assert acknowledgements > 0, "nothing of the table is acknowledged"


async def priorities(connect):
    """What is urgent overtakes what waits to be sent, though it was asked for last (RFC 9218)."""
    # All that is asked for may be on its way: the path is what it waits for.
    client = await connect(max_data=16 << 20, max_stream_data=16 << 20)
    path = b"/length?n=400000"
    others = [client.get(path, (b"priority", b"u=7")) for _ in range(4)]
    await others[0].until(lambda: others[0].body)
    urgent = client.get(path, (b"priority", b"u=0"))
    for exchange in [urgent, *others]:
        await exchange.whole()
    # The first of the others may have been sent by then.
    assert client.ended.index(urgent) <= 1, [exchange.stream for exchange in client.ended]


async def key_update(connect):
    client = await connect()
    keys = client.quic._cryptos[Epoch.ONE_RTT].recv

    async def update():
        # Only what the other side has acknowledged may be updated (RFC 9001 section 6.1), and it may have updated its keys by itself.
        phase = None
        while phase != keys.key_phase:
            phase = keys.key_phase
            await client.ping()
        client.request_key_update()

    # The gateway does that by itself once, after a random number of packets.
    for _ in range(3):
        before = keys.secret
        # What is sealed with other keys is not read: the echo shows that both sides have changed theirs.
        await client.echo_in_two(os.urandom(200_000), update)
        assert keys.secret != before, "the keys are the same"


async def migration(connect):
    """Goes to new ports: with a new connection id as one who knows of it, and with the old one as behind a NAT."""
    client = await connect()

    async def migrate():
        await client.take_port()
        before = client.quic._peer_cid.cid
        client.change_connection_id()
        assert client.quic._peer_cid.cid != before, "the gateway has given it no other id"

    for move in [migrate, client.take_port, migrate, client.take_port]:
        await client.echo_in_two(os.urandom(200_000), move)


async def retry(connect):
    client = await connect()
    assert client.quic._retry_count == 1, "no Retry packet"
    await client.get(b"/").seen()


async def version_negotiation(connect):
    client = await connect(supported_versions=[UNKNOWN_VERSION, QuicProtocolVersion.VERSION_1])
    assert client.quic._version_negotiated_incompatible, "no Version Negotiation packet"
    assert client.quic._version == QuicProtocolVersion.VERSION_1
    await client.get(b"/").seen()


async def main(case, address, authority):
    host, port = address.rsplit(":", 1)
    clients = []

    async def connects(**options):
        clients.append(await connect((host, int(port)), authority, **options))
        return clients[-1]

    async with asyncio.timeout(PATIENCE):
        await globals()[case](connects)
        for client in clients:
            client.close()
            await client.wait_closed()


asyncio.run(main(*sys.argv[1:]))
