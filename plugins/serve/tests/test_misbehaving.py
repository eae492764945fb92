"""A thousand messages and connections that are wrong cost the server and good clients nothing."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import threading
import time
from pathlib import Path

import msgpack
import numpy as np
import pytest
import rlcore_serve.server
from rlcore_serve.wire import pack, unpack
from served import ask, message_of, serving
from websockets.exceptions import ConnectionClosed, InvalidHandshake

COUNT = 1000
SEED = 7
HEAD = (
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


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
        form = {
            b"__ndarray__": True,
            b"data": b"1234",
            b"dtype": draw.choice(["<f4", "|O", "V9"]),
            b"shape": draw.choice([[2**40, 2**40], [-1], [1] * 40, ["a"], None]),
        }
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
    with socket.create_connection(("127.0.0.1", port), timeout=10) as link:
        kind = draw.randrange(3)
        if kind == 0:
            link.sendall(HEAD[: draw.randrange(len(HEAD))])
        elif kind == 1:
            link.sendall(draw.randbytes(300))
        else:
            link.sendall(HEAD)
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


@pytest.mark.long
def test_clients_that_hold_on_and_storms_of_clients(policy, observation, monkeypatch):
    """Halves of handshakes and of frames, answers that nobody reads, more clients than are taken,
    and many that come and go: one client is answered all the while, and the end does not wait."""
    monkeypatch.setattr(rlcore_serve.server, "DRAIN_SECONDS", 5.0)
    message = message_of(observation)
    good = pack(message)
    with contextlib.ExitStack() as held:
        server = held.enter_context(
            serving(policy, forward_batch=4, max_clients=64, max_message_mb=1)
        )

        def link(sent: bytes) -> socket.socket:
            made = held.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            made.sendall(sent)
            return made

        faithful = held.enter_context(server.connect())
        faithful.recv()
        first = ask(faithful, message)["actions"]

        def still_answered() -> None:
            assert (ask(faithful, message)["actions"] == first).all()

        for _ in range(100):  # hold no place, as they never come in
            link(HEAD[: len(HEAD) // 2])
        half_frame = b"\x82\xff" + len(good).to_bytes(8, "big") + b"\0\0\0\0" + good[:500]
        for _ in range(20):
            link(HEAD).recv(4096)
            link(HEAD + half_frame)
        still_answered()
        deaf = held.enter_context(server.connect(max_queue=1))
        for _ in range(50):  # answers that are not read
            deaf.send(good)
        still_answered()
        taken, refused = 0, 0
        for _ in range(100):
            try:
                held.enter_context(server.connect())
                taken += 1
            except InvalidHandshake:
                refused += 1
        assert taken < 64 and taken + refused == 100 and refused > 36
        still_answered()
        since = time.monotonic()
        server.end()  # waits neither for the deaf nor for halves
        assert time.monotonic() - since < 30
    with serving(policy, forward_batch=4) as server:
        for number in range(300):  # come and go, every third in the middle of a request
            with contextlib.suppress(ConnectionClosed), server.connect() as client:
                client.recv()
                if number % 3 == 0:
                    client.send(good)
        with server.connect() as client:
            client.recv()
            assert (ask(client, message)["actions"] == first).all()
        assert not [line for line in server.lines if "Traceback" in line]
