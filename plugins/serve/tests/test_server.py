"""The server: openpi's protocol, batches, keys, limits and mistakes of clients."""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from rlcore_serve.batching import blank_observation
from rlcore_serve.wire import pack, unpack
from served import ask, message_of, serving
from websockets.exceptions import ConnectionClosed, InvalidStatus

from rlcore.contracts.rng import RowKeys


def test_metadata_then_a_whole_chunk_for_each_observation(policy, observation):
    with serving(policy) as server, server.connect() as client:
        hello = unpack(client.recv())
        assert hello["policy"] == "toy" and hello["action_horizon"] == 2
        first = ask(client, message_of(observation))
        second = ask(client, message_of(observation, 1))
    wanted = policy.select_actions(observation)
    for row, reply in enumerate((first, second)):
        assert reply["actions"].shape == (2, 2) and reply["actions"].dtype == np.float32
        np.testing.assert_allclose(reply["actions"], wanted[row], rtol=1e-5)
    assert first["server_timing"]["infer_ms"] > 0 and first["server_timing"]["batch"] == 1
    assert "prev_total_ms" not in first["server_timing"]
    assert second["server_timing"]["prev_total_ms"] > 0
    # openpi's broker cuts every array of a reply along its first axis
    assert [name for name, value in second.items() if isinstance(value, np.ndarray)] == ["actions"]


def test_actions_are_clipped_to_the_ranges_of_the_env(policy, observation, monkeypatch):
    """A simulator clips the actions that it gets; a robot may not."""
    raw = np.array([[[-3.0, 0.5], [1.0, 7.0]]], np.float32)
    monkeypatch.setattr(type(policy), "select_actions", lambda *_: raw)
    with serving(policy) as server, server.connect() as client:
        hello = unpack(client.recv())
        reply = ask(client, message_of(observation))
    assert (hello["action_low"], hello["action_high"]) == ([-1.0, -1.0], [1.0, 1.0])
    assert reply["actions"].tolist() == [[-1.0, 0.5], [1.0, 1.0]]


def test_the_policy_acts_before_the_server_listens(policy, observation):
    """On black frames and zeros, of the shapes that clients send; no client waits for it."""
    seen = []

    def act(observation, keys):
        seen.append(observation)
        return policy.select_actions(observation, keys, True, None)

    with serving(policy, act=act, warm_up=blank_observation(policy.env_spec)) as server:
        assert len(seen) == 1
        with server.connect() as client:
            client.recv()
            reply = ask(client, message_of(observation))
    assert len(seen) == 2 and reply["server_timing"]["batch"] == 1
    first, second = seen
    for name, frames in first["cameras"].items():
        assert frames.shape == second["cameras"][name].shape and not frames.any()
    assert first["states"].shape == second["states"].shape


def test_draws_are_keyed_by_the_clients_key_or_by_connection_and_request(policy, observation):
    message = message_of(observation)
    with (
        serving(policy, deterministic=False, forward_batch=4) as server,
        server.connect() as one,
        server.connect() as other,
    ):
        one.recv(), other.recv()
        drawn = [ask(client, message)["actions"] for client in (one, one, other)]
        keyed = [
            ask(client, message | {"rlcore/key": [3, 1, 1000, 0, 5]})["actions"]
            for client in (one, other)
        ]
    assert len({chunk.tobytes() for chunk in drawn}) == 3
    row = {
        "cameras": {name: frames[:1] for name, frames in observation["cameras"].items()},
        "states": observation["states"][:1],
        "task_descriptions": observation["task_descriptions"][:1],
    }
    # as the evaluation with seed 3 draws for decision 5 of task 1, trial 1000
    keys = RowKeys(((3, "eval", 0, 1, 1000, 0, 5),))
    wanted = policy.select_actions(row, keys, deterministic=False, forward_batch=4)[0]
    assert (keyed[0] == wanted).all() and (keyed[1] == wanted).all()


def test_clients_that_ask_at_once_share_a_forward(policy, observation):
    sizes = []

    def act(rows, keys):
        sizes.append(len(keys))
        return policy.select_actions(rows, keys, forward_batch=4)

    together = threading.Barrier(4)

    def client_of(row):
        with server.connect() as client:
            client.recv()
            together.wait()
            return ask(client, message_of(observation, row % 3))["actions"]

    waits = {"max_batch": 4, "max_wait_ms": 20_000}
    with serving(policy, act=act, **waits) as server, ThreadPoolExecutor(4) as pool:
        chunks = list(pool.map(client_of, range(4)))
    assert sizes == [4]  # they wait for each other, and no longer
    wanted = policy.select_actions(observation, forward_batch=4)
    assert all((chunk == wanted[row % 3]).all() for row, chunk in enumerate(chunks))


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("observation/state", np.zeros(3, np.float32), "2 entries"),
        ("observation/state", np.full(2, np.nan), "finite"),
        ("observation/state", "0 0", "numbers"),
        ("observation/cameras/top", np.zeros((16, 16, 3)), "uint8 [16, 16, 3]"),
        ("observation/cameras/top", np.zeros((3, 16, 16), np.uint8), "uint8 [3, 16, 16]"),
        ("prompt", "", "prompt"),
        ("prompt", "x" * 2049, "2048"),
        ("rlcore/key", [1, 2], "whole numbers"),
        ("rlcore/elapsed", 2.0, "[0, 1]"),
    ],
)
def test_a_wrong_observation_costs_other_clients_nothing(
    policy, observation, snapshot, name, value, word
):
    with serving(policy) as server, server.connect() as good, server.connect() as bad:
        good.recv(), bad.recv()
        before = ask(good, message_of(observation))["actions"]
        answer = ask(bad, message_of(observation) | {name: value})
        assert isinstance(answer, str) and "\n" not in answer
        assert name in answer and word in answer and answer == snapshot
        with pytest.raises(ConnectionClosed) as closed:
            bad.recv(timeout=10)
        assert closed.value.rcvd.code == 1011
        assert (ask(good, message_of(observation))["actions"] == before).all()
    assert [line for line in server.lines if answer in line]


def test_a_missing_name_is_refused(policy, observation):
    message = message_of(observation)
    del message["observation/state"]
    with serving(policy) as server, server.connect() as client:
        client.recv()
        answer = ask(client, message)
    assert answer.startswith("observation/state ")


def test_a_row_at_which_the_policy_fails_is_answered_by_itself(policy, observation):
    def act(rows, keys):
        if "boom" in rows["task_descriptions"]:
            raise RuntimeError("no such sentence")
        return policy.select_actions(rows, keys)

    def client_of(prompt):
        with server.connect() as client:
            client.recv()
            together.wait()
            return ask(client, message_of(observation) | {"prompt": prompt})

    together = threading.Barrier(2)
    with serving(policy, act=act, max_wait_ms=20_000) as server, ThreadPoolExecutor(2) as pool:
        good, bad = pool.map(client_of, [observation["task_descriptions"][0], "boom"])
    assert "RuntimeError: no such sentence" in bad
    assert good["actions"].shape == (2, 2)


def test_health(policy):
    with serving(policy, key="secret") as server:
        answer = urllib.request.urlopen(f"http://127.0.0.1:{server.port}/healthz", timeout=10)
        assert (answer.status, answer.read()) == (200, b"OK\n")


def test_a_key_is_asked_for(policy):
    with serving(policy, key="secret") as server:
        for headers in ({}, {"Authorization": "Api-Key secre"}, {"Authorization": "secret"}):
            with pytest.raises(InvalidStatus) as refused:
                server.connect(additional_headers=headers)
            assert refused.value.response.status_code == 401
        with server.connect(additional_headers={"Authorization": "Api-Key secret"}) as client:
            assert unpack(client.recv())["policy"] == "toy"


def test_no_more_clients_and_no_pages_of_a_browser(policy):
    with serving(policy, max_clients=1) as server:
        with server.connect() as client:
            client.recv()
            with pytest.raises(InvalidStatus) as refused:
                server.connect()
            assert refused.value.response.status_code == 503
        time.sleep(0.2)
        with pytest.raises(InvalidStatus) as refused:
            server.connect(origin="http://evil.example")
        assert refused.value.response.status_code == 403
        with server.connect() as client:  # the one before left
            assert client.recv()


def test_a_message_that_is_too_large_is_not_read(policy, observation):
    with serving(policy, max_message_mb=0.01) as server, server.connect() as client:
        client.recv()
        client.send(pack({"prompt": "x" * 20_000}))
        with pytest.raises(ConnectionClosed) as closed:
            client.recv(timeout=10)
        assert closed.value.rcvd.code == 1009
    (line,) = server.lines
    assert "10485" in line and "serve.max_message_mb" in line


def test_open_requests_are_answered_before_the_server_ends(policy, observation):
    begun = threading.Event()

    def act(rows, keys):
        begun.set()
        time.sleep(0.5)
        return policy.select_actions(rows, keys)

    with serving(policy, act=act) as server, server.connect() as client, server.connect() as idle:
        client.recv(), idle.recv()
        client.send(pack(message_of(observation)))
        assert begun.wait(10)
        server.end()
        assert unpack(client.recv(timeout=10))["actions"].shape == (2, 2)
        for each in (client, idle):
            with pytest.raises(ConnectionClosed) as closed:
                each.recv(timeout=10)
            assert closed.value.rcvd.code == 1001
        with pytest.raises(OSError):
            server.connect(open_timeout=5)
