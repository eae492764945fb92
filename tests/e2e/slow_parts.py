"""A toy env and an RFT that sleep as long as real ones compute, and write down when they did."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from rlcore_algo_rft.rft import RFT
from rlcore_algo_rft.settings import RFTConfig
from rlcore_testing.toy_env import ToyEnv
from rlcore_testing.toy_settings import ToyEnvConfig

from rlcore.contracts.learning import Step
from rlcore.contracts.protocols import ChunkResult, Learning
from rlcore.training.assembly import Assembly
from rlcore.workers.env_worker import EnvWorkerSettings

FILES = count()


@dataclass
class SlowEnvConfig(ToyEnvConfig):
    """A folder for the times of chunks, and the seconds that each takes."""

    record_to: str = ""
    seconds: float = 0.0


@dataclass
class SlowRFTConfig(RFTConfig):
    """A folder for the times of updates, and the seconds that each takes."""

    record_to: str = ""
    seconds: float = 0.0


def slowed(assembly: Assembly, folder: Path, *, chunk: float, update: float) -> Assembly:
    """The same run, with the parts of this module in place of env and algorithm."""

    def settings(plain: Any) -> Any:
        if isinstance(plain, EnvWorkerSettings):
            train = plain.sides["train"]
            config = _extended(SlowEnvConfig, train.config, str(folder), chunk)
            slow = replace(train, target=f"{__name__}:make_env", config=config)
            return replace(plain, sides={**plain.sides, "train": slow})
        config = _extended(SlowRFTConfig, plain.algorithm, str(folder), update)
        return replace(plain, algorithm_target=f"{__name__}:SlowRFT", algorithm=config)

    members = {
        role: tuple(replace(member, settings=settings(member.settings)) for member in ones)
        for role, ones in assembly.worker_specs.members.items()
    }
    return replace(assembly, worker_specs=replace(assembly.worker_specs, members=members))


def spans(folder: Path, what: str) -> list[tuple[float, float]]:
    """(begin, end) of each env chunk ("chunk") or update ("update"), in order."""
    times = [tuple(map(float, file.read_text().split())) for file in folder.glob(f"{what}-*")]
    return sorted((begin, end) for begin, end in times)


class SlowEnv(ToyEnv):
    """A toy env whose chunks take a while."""

    def __init__(self, config: SlowEnvConfig, num_envs: int) -> None:
        super().__init__(config, num_envs)
        self._slow = config

    def chunk_step(self, actions: np.ndarray) -> ChunkResult:
        with _slept("chunk", self._slow.record_to, self._slow.seconds):
            return super().chunk_step(actions)


def make_env(config: SlowEnvConfig, *, num_envs: int, **_: int) -> SlowEnv:
    return SlowEnv(config, num_envs)


class SlowRFT(RFT):
    """An RFT whose updates take a while."""

    def __init__(self, config: SlowRFTConfig) -> None:
        super().__init__(config)
        self._slow = config

    def updates(self, learning: Learning) -> Iterator[Step]:
        with _slept("update", self._slow.record_to, self._slow.seconds):
            yield from super().updates(learning)


@contextmanager
def _slept(what: str, folder: str, seconds: float) -> Iterator[None]:
    """Sleep after the body, and write down when it began and ended."""
    begin = time.monotonic()
    yield
    time.sleep(seconds)
    file = Path(folder) / f"{what}-{os.getpid()}-{next(FILES)}"
    file.write_text(f"{begin} {time.monotonic()}")


def _extended(kind: type[Any], settings: object, folder: str, seconds: float) -> Any:
    own = ("record_to", "seconds")
    values = {one.name: vars(settings)[one.name] for one in fields(kind) if one.name not in own}
    return kind(**values, record_to=folder, seconds=seconds)
