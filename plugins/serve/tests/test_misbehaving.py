"""A thousand messages and connections that are wrong cost the server and good clients nothing."""

from __future__ import annotations

import os
import random
import socket
import threading
from pathlib import Path

import msgpack
import numpy as np
import pytest
from rlcore_serve.wire import pack, unpack
from served import ask, message_of, serving
from websockets.exceptions import ConnectionClosed, InvalidHandshake

COUNT = 1000
SEED = 7


def resident() -> int:
    """MiB of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


def wrong(draw: random.Random, good: bytes, message: dict) -> bytes | str:
    """One message that is no observation, or at least not surely one."""
    kind = draw.randrange(9)
    if kind == 0:
        return draw.randbytes(draw.randrange(200))
    if kind == 1:
        return good[: draw.randrange(len(good))]
    if kind == 2:  # bits that flipped in its names, types and sizes
        changed = bytearray(good)
        for _ in range(8):
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        return bytes(changed)
    if kind == 3:
        return draw.choice([b"\x91", b"\x81\xa1a"]) * draw.choice([10, 1000, 200_000]) + b"\xc0"
    if kind == 4:  # a length that nothing follows: list, map, bytes, text, extension
        return draw.choice([b"\xdd", b"\xdf", b"\xc6", b"\xdb", b"\xc9"]) + b"\xff\xff\xff\xff"
    if kind == 5:
        form = {b"__ndarray__": True, b"data": b"1234", b"dtype": draw.choice(["<f4", "|O", "V9"]),
                b"shape": draw.choice([[2**40, 2**40], [-1], [1] * 40, ["a"], None])}  # fmt: skip
        return msgpack.packb({**dict.fromkeys(message, 0), "observation/state": form})
    if kind == 6:
        name = draw.choice(list(message))
        return pack({key: value for key, value in message.items() if key != name})
    if kind == 7:
        name = draw.choice(list(message))
        value = draw.choice([None, [], {}, "", 5, np.zeros((3, 2)), np.full(2, np.inf)])
        return pack(message | {name: value})
    return draw.choice(["", "text", "\0" * 500])


def cut(draw: random.Random, port: int) -> None:
    """A connection that ends in its handshake, or in a frame, or is no websocket."""
    head = (
        b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port), timeout=10) as link:
        kind = draw.randrange(3)
        if kind == 0:
            link.sendall(head[: draw.randrange(len(head))])
        elif kind == 1:
            link.sendall(draw.randbytes(300))
        else:
            link.sendall(head)
            link.recv(4096)
            # a masked binary frame that says it has 2**60 bytes, or 100 of which 10 come
            size = draw.choice([b"\x82\xff" + (2**60).to_bytes(8, "big"), b"\x82\xe4"])
            link.sendall(size + b"\0" * 14)


@pytest.mark.long
def test_a_thousand_of_them(policy, observation):
    draw, message = random.Random(SEED), message_of(observation)
    good, stop, failed = pack(message), threading.Event(), []
    with serving(policy, forward_batch=4, max_message_mb=1) as server:

        def faithful() -> None:
            """A client that asks all the while, and always gets the same answer."""
            try:
                with server.connect() as client:
                    client.recv()
                    first = ask(client, message)["actions"]
                    while not stop.is_set():
                        assert (ask(client, message)["actions"] == first).all()
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=faithful)
        thread.start()
        answers = {"sentence": 0, "closed": 0, "actions": 0}
        for number in range(COUNT):
            if number == COUNT // 5:
                before = resident()  # all that is loaded once is there
            if draw.random() < 0.2:
                cut(draw, server.port)
                continue
            try:
                with server.connect() as client:
                    client.recv(timeout=30)
                    client.send(wrong(draw, good, message))
                    answer = client.recv(timeout=30)
            except (ConnectionClosed, InvalidHandshake):
                answers["closed"] += 1
                continue
            if isinstance(answer, str):
                assert 0 < len(answer) <= 2000 and "\n" not in answer
                answers["sentence"] += 1
            else:  # a flipped bit of a picture is a picture
                assert unpack(answer)["actions"].shape == (2, 2)
                answers["actions"] += 1
        grown = resident() - before
        stop.set()
        thread.join(60)
        with server.connect() as client:  # nobody holds a place who left
            client.recv()
            assert ask(client, message)["actions"].shape == (2, 2)
    assert not failed and sum(answers.values()) > 0.7 * COUNT
    assert answers["sentence"] > 0.6 * COUNT and grown < 32, (answers, grown)
    assert not [line for line in server.lines if "Traceback" in line]
