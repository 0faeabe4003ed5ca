"""A WebSocket server that does what its clients ask for: the library websockets behind the gateway.

    serve.py HOST:PORT [CERTIFICATE [PROTOCOL...]]

The protocols are those that it agrees to in a TLS handshake, whatever it speaks then.

A text that begins with a slash asks for something; everything else is sent back.
"""

import asyncio
import ssl
import sys

import websockets

# How the connections that gave themselves a name have ended.
ends = {}


def end_of(name):
    return ends.setdefault(name, asyncio.get_running_loop().create_future())


async def obey(ws, ask, *words):
    if ask == "/name":
        name = words[0]
        asyncio.create_task(note_end(ws, name))
    elif ask == "/ended":
        await ws.send(await end_of(words[0]))
    elif ask == "/close":
        await ws.close(int(words[0]), " ".join(words[1:]))
    elif ask == "/abort":
        ws.transport.abort()
    elif ask == "/ping":
        await (await ws.ping())
        await ws.send("the pong has come")
    elif ask == "/fragments":
        await ws.send(["one ", "message ", "in parts"])
    elif ask == "/extensions":
        agreed = getattr(ws, "protocol", ws).extensions
        await ws.send(" ".join(extension.name for extension in agreed))


async def note_end(ws, name):
    await ws.wait_closed()
    end_of(name).set_result(f"{ws.close_code} {ws.close_reason or ''}")


async def converse(ws):
    try:
        await hear(ws)
    except websockets.ConnectionClosedError:
        # Some clients here are lost on purpose; how it ended is noted.
        pass


async def hear(ws):
    async for message in ws:
        if isinstance(message, str) and message.startswith("/"):
            # Beside the reading of what comes next: a pong, say.
            asyncio.create_task(obey(ws, *message.split(" ")))
        else:
            await ws.send(message)


async def serve(address, certificate=None, *protocols):
    host, port = address.rsplit(":", 1)
    context = None
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        if protocols:
            context.set_alpn_protocols(protocols)
    options = {"ssl": context, "max_size": None, "ping_interval": None, "backlog": 4096}
    async with websockets.serve(converse, host, int(port), **options):
        await asyncio.Future()


asyncio.run(serve(*sys.argv[1:]))
