"""Microseconds that a chunk takes to cross between a simulator process and its parent.

    python benchmarks/crossing.py [--rows N] [--chunk C] [--python PATH] [--repeats N] [--json PATH]

Our messages (JSON and raw arrays) against pickle, on the same chunk in the same run; and with
--python, chunks of MetaWorld under that interpreter against our own. See docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import pickle
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from parts.machine import Machine
from rlcore_simulation.messages import Play, Played
from rlcore_simulation.translate import ANSWERS, COMMANDS, decode, encode
from rlcore_simulation.wire import pack, unpack


def main() -> None:
    options = _arguments()
    machine = Machine.this(cores=1)
    figures = crossing(options.rows, options.chunk, options.repeats)
    if options.python is not None:
        for name, python in (("own", None), ("other", options.python)):
            figures[f"MetaWorld chunk, {name} interpreter"] = chunk_of_metaworld(options, python)
    for line in (*machine.lines(), "", *table(figures)):
        print(line)
    if options.json is not None:
        text = json.dumps({"machine": asdict(machine), "microseconds": figures}, indent=1)
        options.json.write_text(text + "\n")


def crossing(rows: int, chunk: int, repeats: int) -> dict[str, float]:
    """Microseconds of the command and the answer of a chunk, written and read, by the way they go;
    median over repeats."""
    said: list[tuple[Any, Any]] = [
        (COMMANDS, Play(np.ones((rows, chunk, 14), np.float32), False, True)),
        (ANSWERS, _played(rows, chunk)),
    ]

    def ours() -> None:
        for words, each in said:
            decode(unpack(pack(encode(each))), words)

    def pickled() -> None:
        for _, each in said:
            pickle.loads(pickle.dumps(each))

    return {
        "JSON and arrays": _microseconds(ours, repeats),
        "pickle": _microseconds(pickled, repeats),
    }


def chunk_of_metaworld(options: argparse.Namespace, python: str | None) -> float:
    """Microseconds of a chunk of MetaWorld, waited for; median over repeats / 10."""
    from rlcore_env_metaworld.env import make_env
    from rlcore_env_metaworld.settings import MetaWorldConfig

    config = MetaWorldConfig(
        tasks=["reach-v3"], image_size=64, fast_render=True, max_episode_steps=10**6, python=python
    )
    env = make_env(config, num_envs=options.rows, rank=0, world_size=1, num_processes=1)
    try:
        env.reset()
        actions = np.zeros((options.rows, options.chunk, 4), np.float32)
        return _microseconds(lambda: env.chunk_step(actions), max(3, options.repeats // 100))
    finally:
        env.close()


def table(figures: dict[str, float]) -> list[str]:
    """A line for each figure."""
    lines = [f"{name:<40}{value:12.1f} us" for name, value in figures.items()]
    lines.append(f"{'ratio to pickle':<40}{figures['JSON and arrays'] / figures['pickle']:12.2f}")
    chunk = figures.get("MetaWorld chunk, own interpreter")
    if chunk is not None:
        lines.append(
            f"{'crossing, of a chunk':<40}{100 * figures['JSON and arrays'] / chunk:11.2f} %"
        )
    return lines


def _played(rows: int, chunk: int) -> Played:
    steps, ends = np.ones((rows, chunk), np.float32), np.zeros((rows, chunk), dtype=bool)
    infos = [{"distance": 0.1 * row, "grasped": 1.0} for row in range(rows)]
    return Played(steps, ends, ends, ends, ends[:, 0], infos)


def _microseconds(what: Callable[[], object], repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        what()
        seconds.append(time.perf_counter() - begin)
    return 1e6 * median(seconds)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=4, help="rows of a simulator process")
    parser.add_argument("--chunk", type=int, default=5, help="actions of a chunk")
    parser.add_argument("--python", help="interpreter, or folder of its environment")
    parser.add_argument("--repeats", type=int, default=2000, help="medians are printed")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    return parser.parse_args()


if __name__ == "__main__":
    main()
