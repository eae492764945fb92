"""Servers that break the protocol, hang or answer nonsense are refused by their address."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psutil
import pytest
from rlcore_serve.client import PolicyClient
from rlcore_serve.manifest import MAX_METADATA_LENGTH, record_server
from rlcore_serve.remote import RemotePolicy, make
from rlcore_serve.remote_settings import RemoteConfig
from rlcore_serve.wire import pack, unpack
from test_remote import EVAL
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from rlcore.cli.main import main
from rlcore.contracts.errors import PolicyError
from rlcore.contracts.rng import RowKeys


@contextlib.contextmanager
def answering(
    answer: Callable[[ServerConnection, Any, int], None], hello: Any = None
) -> Iterator[str]:
    """The address of a server; `answer` is given each observation, and its number."""

    clients: list[ServerConnection] = []

    def talk(client: ServerConnection) -> None:
        clients.append(client)
        client.send(pack(hello or {}))
        with contextlib.suppress(ConnectionClosed):
            for number, message in enumerate(client):
                answer(client, unpack(message), number)

    with serve(talk, "127.0.0.1", 0, compression=None, max_size=None) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join()
            for client in clients:
                client.close()


def actions_of(number: int) -> dict[str, Any]:
    return {"actions": np.full((2, 2), number, np.float32)}


def remote_to(url: str, policy: Any, **settings: Any) -> RemotePolicy:
    config = RemoteConfig(url=url, num_action_chunks=2, **{"connections": 1, **settings})
    return make(config, env_spec=policy.env_spec)


def act(remote: RemotePolicy, observation: Any) -> np.ndarray:
    rows = {**observation, "elapsed": np.zeros(3, np.float32)}
    keys = RowKeys(tuple((0, "eval", 0, 0, 0, 0, row) for row in range(3)))
    return remote.act(remote.prepare(rows), keys).actions


def once(client: ServerConnection, message: Any, number: int) -> None:
    client.send(pack(actions_of(number)))


def together(client: ServerConnection, *answers: dict[str, Any] | str) -> None:
    """Send answers in one piece: a pong between them says that the first one was the only one."""
    with client.send_context():
        for answer in answers:
            if isinstance(answer, str):
                client.protocol.send_text(answer.encode())
            else:
                client.protocol.send_binary(pack(answer))


def twice(client: ServerConnection, message: Any, number: int) -> None:
    together(client, actions_of(number), actions_of(number))


def twice_at_the_second(client: ServerConnection, message: Any, number: int) -> None:
    together(client, *[actions_of(number)] * (2 if number == 1 else 1))


def late(client: ServerConnection, message: Any, number: int) -> None:
    """The second one of an answer only once the next observation has come."""
    together(client, *(actions_of(each) for each in range(max(0, number - 1), number + 1)))


def and_a_text(client: ServerConnection, message: Any, number: int) -> None:
    together(client, actions_of(number), "two\nlines")


@pytest.mark.parametrize("answer", [twice, twice_at_the_second, late, and_a_text])
def test_more_answers_than_observations_are_refused(policy, observation, answer, refused):
    with answering(answer) as url, refused(PolicyError, url, "one answer", text=False) as error:
        act(remote_to(url, policy), observation)
    assert "\n" not in error.value.message


def test_a_frame_behind_its_hello_is_refused(policy, observation, refused):
    def talk(client: ServerConnection) -> None:
        client.send(pack({}))
        client.send(pack(actions_of(5)))
        with contextlib.suppress(ConnectionClosed):
            client.recv()

    with serve(talk, "127.0.0.1", 0, compression=None) as server:
        threading.Thread(target=server.serve_forever).start()
        url = f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        with refused(PolicyError, url, text=False):
            act(remote_to(url, policy), observation)
        server.shutdown()


def test_one_answer_each_and_an_end_behind_each(policy, observation):
    """A server that ends the connection after an answer, as before a restart, is reached again."""
    with answering(once) as url:
        assert act(remote_to(url, policy), observation)[:, 0, 0].tolist() == [0, 1, 2]

    def and_end(client: ServerConnection, message: Any, number: int) -> None:
        once(client, message, number)
        client.close(1001)

    with answering(and_end) as url:
        assert act(remote_to(url, policy), observation)[:, 0, 0].tolist() == [0, 0, 0]


def test_the_text_of_a_server_is_one_printable_line(policy, observation, refused):
    lines = [f'  File "model.py", line {n}' for n in range(99)]
    trace = "\n".join(
        ["Traceback (most recent call last):", *lines, "ValueError: \x1b[31mno\x1b[0m"]
    )

    def refuse(client: ServerConnection, message: Any, number: int) -> None:
        client.send(trace)

    with answering(refuse) as url, refused(PolicyError, url, text=False) as error:
        act(remote_to(url, policy), observation)
    message = error.value.message
    assert message.isprintable() and len(message) < 700
    assert message.endswith(r"ValueError: \x1b[31mno\x1b[0m")


@pytest.mark.parametrize(
    ("bad", "named"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf"), (1e300, "1e+300")]
)
def test_actions_that_are_not_finite_are_refused(policy, observation, bad, named, refused):
    def answer(client: ServerConnection, message: Any, number: int) -> None:
        actions = np.zeros((3, 2))
        actions[2, 1] = np.nan  # beyond the two steps that are executed
        if number == 1:
            actions[1, 0] = bad
        client.send(pack({"actions": actions}))

    with answering(answer) as url, refused(PolicyError, named, "step 1, entry 0", url, text=False):
        act(remote_to(url, policy), observation)


@pytest.mark.parametrize(
    ("hello", "kept"),
    [
        (
            {b"name": b"pi0", "deep": {b"\xff": [b"a", np.arange(2), None]}},
            {"name": "pi0", "deep": {"\ufffd": ["a", [0, 1], None]}},
        ),
        (
            {"n": float("nan"), "s": np.float32(0.5), "i": np.array([np.inf])},
            {"n": "nan", "s": 0.5, "i": ["inf"]},
        ),
        ({"long": "x" * MAX_METADATA_LENGTH}, f"{MAX_METADATA_LENGTH + 12} bytes, left out"),
    ],
)
def test_the_metadata_of_a_server_is_recorded(tmp_path, hello, kept):
    (tmp_path / "manifest.json").write_text('{"versions": {}}')
    with answering(once, hello) as url:
        record_server(RemoteConfig(url=url), tmp_path)
    note = json.loads((tmp_path / "manifest.json").read_text())
    assert note == {"versions": {}, "policy_server": {"url": url, "says": kept}}


def test_an_evaluation_blames_the_server(policy, tmp_path, capsys):
    """NaN is no training that has diverged: the error names the server, in one line."""

    def answer(client: ServerConnection, message: Any, number: int) -> None:
        client.send(pack({"actions": np.full((2, 2), np.nan)}))

    with answering(answer) as url:
        words = [*EVAL, f"actor.model.url={url}", f"runner.logger.log_path={tmp_path}"]
        code = main(["eval", *words])
    printed = capsys.readouterr().err
    assert code == PolicyError.exit_code
    assert printed.count("error:") == 1 and url in printed and "Traceback" not in printed


@pytest.mark.long
def test_a_server_that_is_stopped_is_named_and_leaves_nothing(run, policy, observation, refused):
    """SIGSTOP: the client ends in time; the server goes on with SIGCONT, and ends with SIGTERM."""
    command = [sys.executable, "-m", "rlcore.cli.main", "serve", str(run), "serve.port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = re.search(r"ws://\S+", process.stdout.readline())[0]
        remote = remote_to(url, policy, reply_s=2, reconnect_s=2)
        before = act(remote, observation)
        process.send_signal(signal.SIGSTOP)
        since = time.monotonic()
        with refused(PolicyError, url, "2 s", text=False):
            act(remote, observation)
        big = {
            "cameras": {"top": np.zeros((3, 16, 16, 3), np.uint8)},
            "states": observation["states"],
            "task_descriptions": observation["task_descriptions"],
        }
        with refused(PolicyError, url, "2 s", text=False):
            act(remote, big)  # a connection of its own, which nobody takes
        assert time.monotonic() - since < 30
        process.send_signal(signal.SIGCONT)
        assert (act(remote, observation) == before).all()
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert not [child for child in children if child.is_running()]


def test_a_server_that_takes_nothing_more_is_named(refused):
    """It reads no frame after the first, so that a send would wait for ever."""
    released = threading.Event()

    def hold(client: ServerConnection, message: Any, number: int) -> None:
        once(client, message, number)
        released.wait(30)

    with answering(hold) as url:
        client = PolicyClient(url, reconnect_s=1, reply_s=1, max_bytes=1 << 20)
        client.request({"frame": 0})
        since = time.monotonic()
        with refused(PolicyError, url, text=False):
            client.request({"frame": np.zeros(64 << 20, np.uint8)})
        assert time.monotonic() - since < 20
        released.set()
