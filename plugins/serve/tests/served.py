"""A toy policy, and servers of it in threads of the test's process."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlcore_serve.batching import Batcher, action_function
from rlcore_serve.command import metadata
from rlcore_serve.platforms import load_platform
from rlcore_serve.server import PolicyServer
from rlcore_serve.settings import ServeConfig
from rlcore_serve.wire import pack, unpack
from websockets.sync.client import ClientConnection, connect

import rlcore
from rlcore.api import LoadedPolicy

TOY = (
    "env=toy",
    "model=toy",
    "algorithm=ppo",
    "cluster.backend=local",
    "env.train.total_num_envs=8",
    "env.eval.total_num_envs=4",
    "env.eval.trials_per_task=2",
    "env.*.tasks=[reach-left,reach-up]",
    "runner.max_epochs=1",
    "runner.val_before_train=false",
    "actor.micro_batch_size=16",
    "actor.global_batch_size=32",
    "actor.model.num_action_chunks=2",
    "runner.logger.logger_backends=[]",
    "cluster.torch_threads=1",
    "rollout.forward_batch=4",
)


def toy_run(folder: Path, *overrides: str) -> Path:
    return rlcore.train(*TOY, f"runner.logger.log_path={folder}", *overrides).folder


class Running:
    """A server that runs.

    Attributes:
        port: that it listens on.
        lines: what it printed.
    """

    def __init__(self, port: int, lines: list[str], end: Any) -> None:
        self.port, self.lines, self.end = port, lines, end

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def connect(self, **options: Any) -> ClientConnection:
        return connect(self.url, compression=None, max_size=None, **options)


@contextlib.contextmanager
def serving(
    policy: LoadedPolicy,
    key: str | None = None,
    act: Any = None,
    warm_up: Any = None,
    **settings: Any,
) -> Iterator[Running]:
    config = ServeConfig(**{"port": 0, **settings})
    loop, lines = asyncio.new_event_loop(), list[str]()
    own = action_function(
        policy, deterministic=config.deterministic, forward_batch=config.forward_batch
    )
    server = PolicyServer(
        config,
        load_platform(config.platform, policy.env_spec),
        metadata(policy, config, "run"),
        lambda connected: Batcher(
            act or own, connected, max_batch=config.max_batch, max_wait_s=config.max_wait_ms / 1e3
        ),
        key,
        lines.append,
        warm_up,
    )
    ready, ports = threading.Event(), list[int]()

    def run() -> None:
        loop.run_until_complete(server.run(lambda port: (ports.append(port), ready.set())))

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(20)

    def end() -> None:
        if thread.is_alive():
            loop.call_soon_threadsafe(server.stop)
            thread.join(60)

    try:
        yield Running(ports[0], lines, end)
    finally:
        end()
        assert not thread.is_alive()
        loop.close()


def ask(client: ClientConnection, message: Any) -> Any:
    client.send(pack(message))
    answer = client.recv(timeout=30)
    return answer if isinstance(answer, str) else unpack(answer)


def message_of(observation: Any, row: int = 0, **more: Any) -> dict[str, Any]:
    """As `platform=rlcore` names it."""
    return {
        **{
            f"observation/cameras/{name}": frames[row]
            for name, frames in observation["cameras"].items()
        },
        "observation/state": observation["states"][row],
        "prompt": observation["task_descriptions"][row],
        **more,
    }
