"""Clients that are slow or silent hold no place that others want, and a policy that hangs ends the
server with an error."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable

import pytest
from rlcore_serve.batching import Batcher
from rlcore_serve.platforms import load_platform
from rlcore_serve.server import PolicyServer
from rlcore_serve.settings import ServeConfig, read_settings
from rlcore_serve.wire import pack
from served import ask, message_of, serving
from test_misbehaving import HEAD
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import connect

from rlcore.contracts.errors import ConfigError, StuckError

PLACES = 4
SECONDS = 1.0  # serve.message_s
PONG = 0x8A
MASK = b"\0\0\0\0"


def shaken_hands(port: int) -> socket.socket:
    link = socket.create_connection(("127.0.0.1", port), timeout=10)
    link.sendall(HEAD)
    link.recv(4096)
    return link


def one_frame(link: socket.socket) -> bytes:
    """A byte of a frame that has 200."""
    return b"\0"


def many_frames(link: socket.socket) -> bytes:
    """Parts of one message, of a byte each, with a pong in between."""
    return b"\x00\x81" + MASK + b"x" + bytes([PONG, 0x80]) + MASK


def nothing(link: socket.socket) -> bytes:
    """Pongs alone: a client that lives, and asks nothing."""
    return bytes([PONG, 0x80]) + MASK


BEGINNINGS = {
    one_frame: b"\x82\xfe" + struct.pack(">H", 200) + MASK,
    many_frames: b"\x02\x81" + MASK + b"x",
    nothing: b"",
}


@pytest.mark.parametrize("kind", BEGINNINGS)
def test_dribbling_clients_hold_no_place(
    policy, observation, kind: Callable[[socket.socket], bytes]
):
    """They take all places but one; a client that has asked keeps its own, another comes in."""
    message, stop = message_of(observation), threading.Event()
    with contextlib.ExitStack() as held:
        server = held.enter_context(serving(policy, max_clients=PLACES, message_s=SECONDS))
        faithful = held.enter_context(server.connect())
        faithful.recv()
        first = ask(faithful, message)["actions"]
        links = [held.enter_context(shaken_hands(server.port)) for _ in range(PLACES - 1)]

        def dribble() -> None:
            for link in links:
                link.sendall(BEGINNINGS[kind])
            while not stop.wait(0.1):
                for link in links:
                    with contextlib.suppress(OSError):
                        link.sendall(kind(link))

        thread = threading.Thread(target=dribble)
        thread.start()
        held.callback(thread.join)
        held.callback(stop.set)
        since = time.monotonic()
        while True:
            with contextlib.suppress(InvalidHandshake):
                other = held.enter_context(server.connect())
                break
            assert time.monotonic() - since < 10 * SECONDS
            time.sleep(0.1)
        other.recv()
        assert (ask(other, message)["actions"] == first).all()
        assert (ask(faithful, message)["actions"] == first).all()


def test_a_dribbling_handshake_ends_and_takes_no_place(policy, observation):
    with (
        serving(policy, max_clients=1, message_s=SECONDS) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=10) as link,
    ):
        link.sendall(HEAD[:20])
        with server.connect() as client:
            client.recv()
            assert ask(client, message_of(observation))["actions"].shape == (2, 2)
        since = time.monotonic()
        assert link.recv(100) == b"" and time.monotonic() - since < 5 * SECONDS


def test_a_message_that_comes_in_pieces_in_time_is_answered(policy, observation):
    data = pack(message_of(observation))
    with serving(policy, message_s=5) as server, server.connect() as client:
        client.recv()
        third = len(data) // 3
        client.send(iter([data[:third], data[third : 2 * third], data[2 * third :]]))
        assert client.recv(timeout=10)
        time.sleep(0.1)
        assert ask(client, message_of(observation))["actions"].shape == (2, 2)


def test_messages_that_wait_for_the_server_are_not_late(policy, observation):
    """It reads no further while it has some to answer: that is not the client's fault."""

    def act(rows, keys):
        time.sleep(0.6)
        return policy.select_actions(rows, keys)

    data = pack(message_of(observation) | {"more": b"x" * 300_000})  # more than is read at once
    with serving(policy, act=act, message_s=0.5) as server, server.connect() as client:
        client.recv()
        sending = threading.Thread(target=lambda: [client.send(data) for _ in range(5)])
        sending.start()
        for _ in range(5):
            assert isinstance(client.recv(timeout=10), bytes)
        sending.join()


def test_a_client_that_does_not_take_its_answer_is_cut_off(policy, observation):
    big = 2_000_000 // 8

    def act(rows, keys):
        return policy.select_actions(rows, keys).repeat(big, axis=1)

    with (
        serving(policy, act=act, max_clients=1, message_s=SECONDS) as server,
        server.connect(max_queue=1) as deaf,
    ):
        deaf.recv()
        for _ in range(6):
            deaf.send(pack(message_of(observation)))
        deadline = time.monotonic() + 20
        while not server.lines:  # that it was cut off
            assert time.monotonic() < deadline, server.lines
            time.sleep(0.1)
        with server.connect() as client:  # its place is free
            client.recv()
        with contextlib.suppress(ConnectionClosed):
            while True:
                deaf.recv(timeout=10)


def test_a_policy_that_hangs_ends_the_server_with_an_error(policy, observation, refused):
    held = threading.Event()
    message, answers = message_of(observation), list[object]()

    def act(rows, keys):
        held.wait()
        return policy.select_actions(rows, keys)

    config = ServeConfig(port=0)
    server = PolicyServer(
        config,
        load_platform("rlcore", policy.env_spec),
        {},
        lambda connected: Batcher(act, connected, max_batch=1, max_wait_s=0, timeout_s=1),
    )
    threads: list[threading.Thread] = []

    def ready(port: int) -> None:
        def client() -> None:
            with connect(f"ws://127.0.0.1:{port}", compression=None) as link:
                link.recv()
                answers.append(ask(link, message))

        threads.extend(threading.Thread(target=client) for _ in range(3))  # one is in the forward
        for thread in threads:
            thread.start()

    try:
        with refused(StuckError, "serve.forward_s", "held.wait", text=False):
            asyncio.run(asyncio.wait_for(server.run(ready), 30))
        for thread in threads:
            thread.join(10)
        assert len(answers) == 3 and all("serve.forward_s" in str(answer) for answer in answers)
        assert not any("held.wait()" in str(answer) for answer in answers)
    finally:
        held.set()


def test_texts_are_taken_as_they_are(refused):
    """`::` is a mapping in YAML, and an address here."""
    for word, host in ("::", "::"), ("'::1'", "::1"), ("a: b", "a: b"), ("5", "5"), ("[x", "[x"):
        assert read_settings([f"serve.host={word}"]).host == host
    for word in ("serve.host=", "serve.message_s=0"):
        with refused(ConfigError, word.partition("=")[0]):
            read_settings([word])
    for word in ("serve.port=::", "serve.port=[1"):  # with the words of YAML's parsers
        with refused(ConfigError, word, text=False):
            read_settings([word])
