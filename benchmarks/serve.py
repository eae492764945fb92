"""What serving costs beside the forward, and how many requests a second one and eight clients get.

    python benchmarks/serve.py [--model pi0_small] [--clients 8] [--requests N] [--threads N]
                               [--json PATH]

The server is a process of its own with a policy of MetaWorld whose weights are random; clients are
threads of this process. Overhead: the CPU time of both processes for one request of one client
against that of the same policy called directly, by turns; and what a round trip takes longer than
the forward in it. Throughput: requests a second, and a CPU-second of the server, by turns of one
client, of all with a forward for each request, and of all with shared forwards. See
docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

import numpy as np
import psutil
import torch
from parts.machine import Machine
from rlcore_serve.batching import Batcher, action_function
from rlcore_serve.client import PolicyClient
from rlcore_serve.command import metadata
from rlcore_serve.platforms import load_platform
from rlcore_serve.server import PolicyServer
from rlcore_serve.settings import ServeConfig

import rlcore
from rlcore.config.compose import compose
from rlcore.contracts.protocols import Observation
from rlcore.rollout.batch_invariance import random_observation

ROUNDS = 5


@dataclass(frozen=True)
class Served:
    """A server that runs: its address, and its process."""

    url: str
    process: psutil.Process

    def cpu(self) -> float:
        """CPU-seconds that it has used."""
        times = self.process.cpu_times()
        return times.user + times.system


def main() -> None:
    options = _arguments()
    machine = Machine.this(cores=options.threads)
    torch.set_num_threads(options.threads)
    policy = loaded(options.model)
    seen = random_observation(policy.env_spec, 1)
    with serving(options, 1) as alone, serving(options, options.clients) as shared:
        cost = overhead(policy, seen, alone, options.requests)
        rates = throughput(policy, seen, alone, shared, options.clients, options.requests)
    for line in (*machine.lines(), "", *table(options, cost, rates)):
        print(line)
    if options.json is not None:
        found = {"machine": asdict(machine), "milliseconds": cost, "requests": rates}
        options.json.write_text(json.dumps(found, indent=1) + "\n")


def loaded(model: str) -> rlcore.api.LoadedPolicy:
    """A policy of MetaWorld's frames with random weights."""
    words = ["env=metaworld", "env.*.tasks=[handle-press-v3]", f"model={model}", "algorithm=ppo"]
    return rlcore.load_policy(compose(words))


def overhead(
    policy: rlcore.api.LoadedPolicy, seen: Observation, server: Served, requests: int
) -> dict[str, float]:
    """Milliseconds of one request, medians of rounds that take turns."""
    message = load_platform("rlcore", policy.env_spec).to_message(seen, 0)
    found: dict[str, list[float]] = {name: [] for name in ("direct", "served", "longer")}
    link = _link(server)
    for turn in range(ROUNDS + 1):
        begin = time.process_time()
        for _ in range(requests):
            policy.select_actions(seen)
        direct = time.process_time() - begin
        begin, before = time.process_time(), server.cpu()
        longer = []
        for _ in range(requests):
            sent = time.perf_counter()
            timing = link.request(message)["server_timing"]
            longer.append(1e3 * (time.perf_counter() - sent) - timing["infer_ms"])
        served = time.process_time() - begin + server.cpu() - before
        if turn:  # the first one warms up
            found["direct"].append(1e3 * direct / requests)
            found["served"].append(1e3 * served / requests)
            found["longer"].append(median(longer))
    link.close()
    return {name: median(values) for name, values in found.items()}


def throughput(
    policy: rlcore.api.LoadedPolicy,
    seen: Observation,
    alone: Served,
    shared: Served,
    clients: int,
    requests: int,
) -> dict[str, dict[str, float]]:
    """Requests a second and a CPU-second of the server, medians of rounds that take turns."""
    message = load_platform("rlcore", policy.env_spec).to_message(seen, 0)
    ways: dict[str, tuple[Served, int]] = {
        "1 client": (alone, 1),
        f"{clients} clients, a forward each": (alone, clients),
        f"{clients} clients, shared forwards": (shared, clients),
    }
    found: dict[str, dict[str, list[float]]] = {
        name: {"a second": [], "a CPU-second": [], "batch": []} for name in ways
    }
    for turn in range(ROUNDS + 1):
        for name, (server, count) in ways.items():
            links = [_link(server) for _ in range(count)]
            batches: list[float] = []

            def asks(link: PolicyClient, batches: list[float] = batches) -> None:
                for _ in range(requests):
                    batches.append(link.request(message)["server_timing"]["batch"])

            with ThreadPoolExecutor(count) as pool:
                begin, before = time.perf_counter(), server.cpu()
                list(pool.map(asks, links))
                seconds, used = time.perf_counter() - begin, server.cpu() - before
            for link in links:
                link.close()
            if turn:
                found[name]["a second"].append(count * requests / seconds)
                found[name]["a CPU-second"].append(count * requests / used)
                found[name]["batch"].append(float(np.mean(batches)))
    return {
        name: {unit: median(values) for unit, values in each.items()}
        for name, each in found.items()
    }


def table(
    options: argparse.Namespace, cost: dict[str, float], rates: dict[str, dict[str, float]]
) -> list[str]:
    """Lines for people."""
    more = cost["served"] - cost["direct"]
    lines = [
        f"{options.model}, {options.threads} threads, milliseconds a request of one client:",
        f"  CPU: {cost['direct']:.1f} called directly, {cost['served']:.1f} served by both "
        f"processes ({more / cost['direct']:+.1%}); a round trip takes {cost['longer']:.1f} longer "
        "than its forward",
        "",
        f"{'requests':32}{'a second':>10}{'a CPU-second':>14}{'in a forward':>14}",
    ]
    for name, one in rates.items():
        lines.append(
            f"{name:32}{one['a second']:10.1f}{one['a CPU-second']:14.1f}{one['batch']:14.1f}"
        )
    return lines


@contextmanager
def serving(options: argparse.Namespace, batch: int) -> Iterator[Served]:
    """A server in a process of its own, whose forwards have at most `batch` rows."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(options.model, options.threads, batch, theirs))
    process.start()
    try:
        yield Served(f"ws://127.0.0.1:{mine.recv()}", psutil.Process(process.pid))
    finally:
        process.terminate()
        process.join()


def _serve(model: str, threads: int, batch: int, ready: Connection) -> None:
    torch.set_num_threads(threads)
    policy = loaded(model)
    settings = ServeConfig(port=0, max_batch=batch, max_wait_ms=20)
    act = action_function(policy, deterministic=True, forward_batch=None)

    def batcher(connected: Callable[[], int]) -> Batcher:
        return Batcher(act, connected, max_batch=batch, max_wait_s=settings.max_wait_ms / 1e3)

    platform = load_platform("rlcore", policy.env_spec)
    says = metadata(policy, settings, "benchmark")
    server = PolicyServer(settings, platform, says, batcher, print_line=lambda line: None)
    asyncio.run(server.run(ready.send))


def _link(server: Served) -> PolicyClient:
    link = PolicyClient(server.url, reconnect_s=60, reply_s=120, max_bytes=2**24)
    link.open()
    return link


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="pi0_small")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--requests", type=int, default=10, help="of each client, in a round")
    parser.add_argument("--threads", type=int, default=2, help="that a forward computes with")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
