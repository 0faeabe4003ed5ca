"""WebSockets over HTTP/2 (RFC 8441): the libraries h2 and wsproto as a client of the gateway.

    over_h2.py check HOST:PORT [AUTHORITY]   what messages, closes and resets become
    over_h2.py stay HOST:PORT                a tunnel that is kept until the gateway stops
"""

import os
import socket
import ssl
import sys

import h2.config
import h2.connection
import h2.errors
import h2.events
import wsproto.connection
from h2.connection import ConnectionInputs, ConnectionState, H2ConnectionStateMachine
from wsproto.connection import ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Message, Ping, Pong, TextMessage
from wsproto.extensions import PerMessageDeflate

from stay import is_refusing

# The library takes GOAWAY for the end of everything; streams that are open go on (RFC 9113 section 6.8).
OPEN, GOAWAY = ConnectionState.CLIENT_OPEN, ConnectionInputs.RECV_GOAWAY
H2ConnectionStateMachine._transitions[OPEN, GOAWAY] = (None, OPEN)

MEGABYTES = 3_000_000


class Client:
    """A connection to the gateway. What comes goes to the stream that it is for."""

    def __init__(self, address, authority=None):
        host, port = address.rsplit(":", 1)
        self.authority = f"localhost:{port}"
        self.scheme = "https" if authority else "http"
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        if authority:
            context = ssl.create_default_context(cafile=authority)
            context.set_alpn_protocols(["h2"])
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
            assert self.socket.selected_alpn_protocol() == "h2"
        config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        self.h2 = h2.connection.H2Connection(config)
        self.streams = {}
        self.is_told = False
        self.is_over = False
        self.h2.initiate_connection()
        self.flush()
        self.until(lambda: self.is_told)
        assert self.h2.remote_settings.enable_connect_protocol == 1

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def until(self, is_so):
        """Reads until it is so, or nothing more comes."""
        while not is_so() and not self.is_over:
            try:
                data = self.socket.recv(65536)
                for event in self.h2.receive_data(data):
                    self.take(event)
                self.flush()
                self.is_over = not data
            except ConnectionError:
                self.is_over = True

    def take(self, event):
        if isinstance(event, h2.events.RemoteSettingsChanged):
            self.is_told = True
        elif isinstance(event, h2.events.DataReceived):
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        stream = self.streams.get(getattr(event, "stream_id", None))
        if stream:
            stream.take(event)

    def request(self, head, end):
        number = self.h2.get_next_available_stream_id()
        stream = self.streams[number] = Stream(self, number)
        common = [(":scheme", self.scheme), (":path", "/"), (":authority", self.authority)]
        self.h2.send_headers(number, [*head[:2], *common, *head[2:]], end_stream=end)
        self.flush()
        self.until(lambda: stream.head or stream.is_over())
        return stream

    def opens(self, *extensions, protocol="websocket"):
        """A tunnel, if the gateway grants one."""
        head = [(":method", "CONNECT"), (":protocol", protocol), ("sec-websocket-version", "13")]
        offers = [f"{extension.name}; {extension.offer()}" for extension in extensions]
        head += [("sec-websocket-extensions", offer) for offer in offers]
        stream = self.request(head, False)
        if stream.head[":status"] == "200":
            assert "sec-websocket-accept" not in stream.head
            agreed = stream.head.get("sec-websocket-extensions", "")
            for extension in extensions:
                assert agreed.startswith(extension.name), stream.head
                extension.finalize(agreed)
            stream.ws = wsproto.connection.Connection(ConnectionType.CLIENT, list(extensions))
        return stream


class Stream:
    """A stream, and the WebSocket on it."""

    def __init__(self, client, number):
        self.client, self.number = client, number
        self.head, self.ws, self.messages, self.pongs = {}, None, [], []
        self.partial, self.closed, self.ended, self.was_reset = [], None, False, False

    def is_over(self):
        return self.ended or self.was_reset

    def take(self, event):
        if isinstance(event, h2.events.ResponseReceived):
            self.head = dict(event.headers)
        elif isinstance(event, h2.events.DataReceived) and self.ws and event.data:
            self.ws.receive_data(event.data)
            self.look()
        elif isinstance(event, h2.events.StreamEnded):
            self.ended = True
        elif isinstance(event, h2.events.StreamReset):
            self.was_reset = True

    def look(self):
        for event in self.ws.events():
            if isinstance(event, Message):
                self.partial.append(event.data)
                if event.message_finished:
                    self.messages.append(type(event.data)().join(self.partial))
                    self.partial = []
            elif isinstance(event, Pong):
                self.pongs.append(bytes(event.payload))
            elif isinstance(event, CloseConnection):
                self.closed = (event.code, event.reason or "")
                if self.ws.state is wsproto.connection.ConnectionState.REMOTE_CLOSING:
                    self.send(event.response())

    def send(self, event):
        bytes, connection = self.ws.send(event), self.client.h2
        while bytes:
            room = lambda: connection.local_flow_control_window(self.number)
            self.client.until(lambda: room() > 0)
            size = min(room(), connection.max_outbound_frame_size, len(bytes))
            connection.send_data(self.number, bytes[:size])
            self.client.flush()
            bytes = bytes[size:]

    def says(self, message):
        kind = TextMessage if isinstance(message, str) else BytesMessage
        self.send(kind(message))

    def hears(self):
        self.client.until(lambda: self.messages or self.is_over())
        return self.messages.pop(0)

    def echoes(self, message):
        self.says(message)
        assert self.hears() == message, len(message)

    def named(self, name):
        self.says(f"/name {name}")
        self.echoes(name)
        return self

    def ends(self):
        """Waits for the end, and ends this side too: the server waits for that."""
        self.client.until(self.is_over)
        assert self.is_over()
        if self.ended:
            self.client.h2.end_stream(self.number)
            self.client.flush()


def text_and_binary(client):
    stream = client.opens()
    for length in [0, 1, 125, 126, 65_535, 65_536, MEGABYTES]:
        stream.echoes("é☃" * (length // 2))
        stream.echoes(os.urandom(length))


def fragments_and_pings(client):
    stream = client.opens()
    stream.send(TextMessage("one ", message_finished=False))
    stream.send(Ping(b"in between"))
    stream.send(TextMessage("message", message_finished=True))
    assert stream.hears() == "one message"
    client.until(lambda: stream.pongs)
    assert stream.pongs == [b"in between"]
    stream.says("/fragments")
    assert stream.hears() == "one message in parts"


def deflate(client):
    stream = client.opens(PerMessageDeflate())
    stream.says("/extensions")
    assert stream.hears() == "permessage-deflate"
    stream.echoes("x" * MEGABYTES)


def a_hundred_on_one_connection(client):
    streams = [client.opens() for _ in range(100)]
    for at, stream in enumerate(streams):
        stream.says(str(at))
    for at, stream in enumerate(streams):
        assert stream.hears() == str(at)
    # The server has another answer for who wants no WebSocket.
    assert client.request([(":method", "GET")], True).head[":status"] == "426"
    for stream in streams:
        stream.send(CloseConnection(1000))
    for stream in streams:
        stream.ends()


def the_client_closes(client):
    stream = client.opens().named("closing")
    stream.send(CloseConnection(4001, "so long"))
    stream.ends()
    assert stream.closed == (4001, "so long") and stream.ended
    assert ended(client, "closing") == "4001 so long"


def the_server_closes(client):
    stream = client.opens()
    stream.says("/close 4002 that was all")
    stream.ends()
    assert stream.closed == (4002, "that was all") and stream.ended


def the_client_resets(client):
    stream = client.opens().named("reset")
    client.h2.reset_stream(stream.number, h2.errors.ErrorCodes.CANCEL)
    client.flush()
    assert ended(client, "reset") == "1006 "


def the_client_is_lost(client):
    other = Client(*sys.argv[2:])
    other.opens().named("lost")
    other.socket.close()
    assert ended(client, "lost") == "1006 "


def the_server_is_lost(client):
    stream = client.opens()
    stream.says("/abort")
    stream.ends()
    assert stream.closed is None


def other_protocols_are_refused(client):
    assert client.opens(protocol="connect-udp").head[":status"] == "501"


def ended(client, name):
    stream = client.opens()
    stream.says(f"/ended {name}")
    return stream.hears()


CASES = [
    text_and_binary,
    fragments_and_pings,
    deflate,
    a_hundred_on_one_connection,
    the_client_closes,
    the_server_closes,
    the_client_resets,
    the_client_is_lost,
    the_server_is_lost,
    other_protocols_are_refused,
]


def check(*arguments):
    client = Client(*arguments)
    for case in CASES:
        print(case.__name__, flush=True)
        case(client)


def stay(address):
    client = Client(address)
    stream = client.opens()
    print("open", flush=True)
    while not is_refusing(address):
        stream.echoes("still there")
    for number in range(10):
        stream.echoes(str(number))
    print("still open", flush=True)
    client.until(lambda: False)
    print("closed", flush=True)


role, *rest = sys.argv[1:]
{"check": check, "stay": stay}[role](*rest)
