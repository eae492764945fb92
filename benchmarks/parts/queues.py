"""How many messages the queues between workers carry.

Pairs of processes talk as env and rollout workers do: an observation there, actions back. Neither
computes anything, so what is measured is the way of a message: Ray's calls, the queue, the store.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil
import ray
from rlcore_ray.channel import ChannelActor, RayChannel

from rlcore.rollout.messages import Receive, Route

SECONDS = 60.0
CONCURRENCY = 1000


class _Counted(ChannelActor):
    """The queues, and what they have cost."""

    def cpu(self) -> float:
        times = psutil.Process().cpu_times()
        return times.user + times.system


class _Talker:
    """One end of a pair."""

    def __init__(self, channel: Any, rank: int) -> None:
        self._channel, self._route = RayChannel(channel), Route(rank, 0)
        self._channel.of = {rank: channel}

    def play(self, rounds: int, size: int) -> None:
        """Env: observations of `size` bytes."""
        for _ in range(rounds):
            self._channel.send([self._route.observations], np.zeros(size, np.uint8))
            self._channel.receive(Receive(self._route.actions, SECONDS, "actions"))

    def answer(self, rounds: int) -> None:
        """Rollout."""
        for _ in range(rounds):
            self._channel.receive(Receive(self._route.observations, SECONDS, "observations"))
            self._channel.send([self._route.actions], np.zeros(64, np.float32))


@dataclass(frozen=True)
class Carried:
    """What one process of queues did for some pairs.

    Attributes:
        pairs: env workers at once.
        messages: observations and answers.
        wall: seconds.
        cpu: CPU-seconds of the process with the queues.
    """

    pairs: int
    messages: int
    wall: float
    cpu: float

    @property
    def rate(self) -> float:
        """Messages a second that one core would carry if it did nothing else."""
        return self.messages / self.cpu


def measure_queues(pairs: int, rounds: int, size: int) -> Carried:
    """On a Ray that has been started.

    Args:
        pairs: env workers, each with a rollout worker of its own.
        rounds: observations of each.
        size: bytes of an observation.
    """
    channel: Any = ray.remote(_Counted).options(num_cpus=0, max_concurrency=CONCURRENCY).remote()
    made = ray.remote(_Talker).options(num_cpus=0)
    talkers: list[Any] = [
        made.remote(channel, rank) for rank in range(pairs) for _ in ("env", "rollout")
    ]

    def talk(rounds: int) -> None:
        plays = [one.play.remote(rounds, size) for one in talkers[::2]]
        ray.get([*plays, *(one.answer.remote(rounds) for one in talkers[1::2])])

    talk(2)  # all are up
    before, begin = ray.get(channel.cpu.remote()), time.perf_counter()
    talk(rounds)
    wall, after = time.perf_counter() - begin, ray.get(channel.cpu.remote())
    for one in (*talkers, channel):
        ray.kill(one)
    return Carried(pairs, 2 * rounds * pairs, wall, after - before)
