"""WebSockets over HTTP/1.1: the library websockets as a client of the gateway.

    over_h1.py check URL [AUTHORITY]     what messages, pings and closes become
    over_h1.py crowd URL COUNT PROCESS   COUNT tunnels at once, and what each costs that process
    over_h1.py stay URL                  a tunnel that is kept until the gateway stops
"""

import asyncio
import os
import ssl
import sys

import websockets

from stay import is_refusing

MEGABYTES = 3_000_000
LENGTHS = [0, 1, 125, 126, 65_535, 65_536, 200_000]


class Check:
    """What is true of every tunnel."""

    def __init__(self, url, authority=None):
        self.url = url
        self.context = ssl.create_default_context(cafile=authority) if authority else None

    def connect(self, **options):
        options = {"open_timeout": 60, "max_size": None, "ping_interval": None, **options}
        return websockets.connect(self.url, ssl=self.context, **options)

    async def ended(self, name):
        """How the server has seen the end of a connection."""
        async with self.connect() as ws:
            await ws.send(f"/ended {name}")
            return await ws.recv()

    async def named(self, name):
        ws = await self.connect()
        await ws.send(f"/name {name}")
        # Once this comes back, that was read.
        await echo(ws, name)
        return ws

    async def text_and_binary(self):
        async with self.connect() as ws:
            for length in LENGTHS:
                await echo(ws, "é☃" * (length // 2))
                await echo(ws, os.urandom(length))

    async def three_megabytes(self):
        async with self.connect() as ws:
            await echo(ws, os.urandom(MEGABYTES))
            await echo(ws, "x" * MEGABYTES)

    async def fragments(self):
        async with self.connect() as ws:
            await ws.send(["one ", "message ", "", "in parts"])
            assert await ws.recv() == "one message in parts"
            await ws.send([b"\0" * 70_000, b"\1"])
            assert await ws.recv() == b"\0" * 70_000 + b"\1"
            await ws.send("/fragments")
            assert await ws.recv() == "one message in parts"

    async def pings(self):
        async with self.connect() as ws:
            for payload in [b"", b"p" * 125]:
                await (await ws.ping(payload))
            await ws.send("/ping")
            assert await ws.recv() == "the pong has come"

    async def deflate(self):
        for compression, agreed in [("deflate", "permessage-deflate"), (None, "")]:
            async with self.connect(compression=compression) as ws:
                await ws.send("/extensions")
                assert await ws.recv() == agreed
                await echo(ws, "x" * MEGABYTES)
                await echo(ws, os.urandom(100_000))

    async def many_on_their_way(self):
        async with self.connect() as ws:
            async def send():
                for number in range(2000):
                    await ws.send(str(number))
            sending = asyncio.create_task(send())
            for number in range(2000):
                assert await ws.recv() == str(number)
            await sending

    async def the_client_closes(self):
        for code, reason in [(1000, ""), (1001, "away"), (3000, "é"), (4999, "r" * 123)]:
            ws = await self.named(f"closing-{code}")
            await ws.close(code, reason)
            assert (ws.close_code, ws.close_reason) == (code, reason)
            assert await self.ended(f"closing-{code}") == f"{code} {reason}"

    async def the_server_closes(self):
        for code, reason in [(1000, ""), (1011, "so long"), (4001, "é")]:
            ws = await self.connect()
            await ws.send(f"/close {code} {reason}")
            await ws.wait_closed()
            assert (ws.close_code, ws.close_reason) == (code, reason)

    async def the_client_is_lost(self):
        ws = await self.named("lost")
        ws.transport.abort()
        assert await self.ended("lost") == "1006 "

    async def the_server_is_lost(self):
        ws = await self.connect()
        await ws.send("/abort")
        await ws.wait_closed()
        assert ws.close_code == 1006, ws.close_code


async def echo(ws, message):
    await ws.send(message)
    answer = await ws.recv()
    assert type(answer) is type(message) and answer == message, (len(message), answer[:80])


CASES = [
    Check.text_and_binary,
    Check.three_megabytes,
    Check.fragments,
    Check.pings,
    Check.deflate,
    Check.many_on_their_way,
    Check.the_client_closes,
    Check.the_server_closes,
    Check.the_client_is_lost,
    Check.the_server_is_lost,
]


async def check(*arguments):
    cases = Check(*arguments)
    for case in CASES:
        print(case.__name__, flush=True)
        await case(cases)


async def crowd(url, count, process):
    before = resident(process)
    options = {"compression": None, "open_timeout": 60, "ping_interval": None}
    every = range(int(count))
    tunnels = await asyncio.gather(*[websockets.connect(url, **options) for _ in every])
    for turn in range(3):
        await asyncio.gather(*[echo(ws, f"{turn} {at}") for at, ws in enumerate(tunnels)])
    cost = (resident(process) - before) // len(tunnels)
    await asyncio.gather(*[ws.close() for ws in tunnels])
    assert {ws.close_code for ws in tunnels} == {1000}
    print(cost)


def resident(process):
    with open(f"/proc/{process}/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


async def stay(url):
    ws = await websockets.connect(url, ping_interval=None)
    print("open", flush=True)
    while not is_refusing(url.removeprefix("ws://").strip("/")):
        await echo(ws, "still there")
    for number in range(10):
        await echo(ws, str(number))
    print("still open", flush=True)
    await ws.wait_closed()
    print("closed", ws.close_code, flush=True)


role, *rest = sys.argv[1:]
play = {"check": check, "crowd": crowd, "stay": stay}[role]
# What is held back on its way would be waited for without end.
asyncio.run(asyncio.wait_for(play(*rest), 120))
