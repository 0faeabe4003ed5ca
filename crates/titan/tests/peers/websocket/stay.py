"""What clients that stay until the gateway stops look at."""

import socket


def is_refusing(address):
    """Whether nobody listens there any more."""
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port))).close()
    except ConnectionError:
        return True
    return False
