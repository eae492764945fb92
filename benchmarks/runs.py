"""Milliseconds of a processor for `rlcore runs` over a thousand folders, against json alone.

    python benchmarks/runs.py [--runs N] [--json PATH]

The folders have the files of a run of the toy, a seed and a discount each. `bound` is what nobody
can go below who reads them: each summary.json and manifest.json opened and parsed by json, nothing
else; for a condition on the configuration also the text of each config.yaml, read only. Processor
time of one process, the best of five; files are in the memory of the system. See
docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from parts.machine import Machine
from rlcore_tools.runs.conditions import Condition, chosen, ordered
from rlcore_tools.runs.folders import runs_below
from rlcore_tools.runs.table import table_of

from rlcore.api import compose
from rlcore.config.compose import to_yaml
from rlcore.contracts.run import Totals
from rlcore.runs.folder import RunFolder
from rlcore.runs.manifest import build_manifest, code, write_manifest
from rlcore.runs.summary import build_summary, write_summary

REPEATS = 5
RATE = {"rate": 0.5, "n": 40, "lo": 0.352, "hi": 0.648}


def main() -> None:
    """Make the folders, measure, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="folders")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args()
    machine = Machine.this(1)
    with tempfile.TemporaryDirectory() as place:
        logs = Path(place)
        make(logs, options.runs)
        figures = measure(logs)
    print("\n".join(machine.lines()))
    print(f"{options.runs} runs\n")
    for name, (ours, bound) in figures.items():
        print(f"{name:44} {ours:8.1f} ms  bound {bound:7.1f} ms  ours / bound {ours / bound:5.2f}")
    if options.json:
        options.json.write_text(json.dumps({"machine": vars(machine), "milliseconds": figures}))


def measure(logs: Path) -> dict[str, tuple[float, float]]:
    """`{what: (ours, bound)}` in milliseconds."""
    rows = runs_below(logs)
    parsed = best(lambda: bare(logs, ("summary.json", "manifest.json")))
    texts = best(lambda: [path.read_text() for path in logs.glob("*/config.yaml")])
    condition = [Condition.read("algorithm.gamma>0.95")]

    def selected() -> None:
        chosen(ordered(runs_below(logs), "after"), condition)

    return {
        "ls: rows of all folders": (best(lambda: runs_below(logs)), parsed),
        "ls: rows, as a table": (best(lambda: table_of(runs_below(logs))), parsed),
        "the table alone": (best(lambda: table_of(rows)), parsed),
        "ls --where algorithm.gamma>0.95 --sort after": (best(selected), parsed + texts),
    }


def best(do: Callable[[], Any]) -> float:
    """Milliseconds of the quickest of :data:`REPEATS`."""
    took = []
    for _ in range(REPEATS):
        begin = time.process_time()
        do()
        took.append(time.process_time() - begin)
    return min(took) * 1e3


def bare(logs: Path, names: tuple[str, ...]) -> None:
    """Read them with json alone."""
    for folder in logs.iterdir():
        for name in names:
            with open(f"{folder}/{name}", "rb") as file:
                json.load(file)


def make(logs: Path, count: int) -> None:
    """The folders of so many runs."""
    words = ("env=toy", "model=toy", "algorithm=ppo", "runner.seed=4242", "algorithm.gamma=0.4242")
    text = to_yaml(compose(*words))
    manifest = build_manifest(
        seeds={"root": 0}, device="cpu", protocol=None, specs={"eval": _spec()}, code=code()
    )
    summary = build_summary(
        {}, seed=0, seconds={"rollout": 9.0, "update": 9.0},
        totals=Totals(env_steps=1, episodes=1), versions=manifest["versions"],
    )  # fmt: skip
    for number in range(count):
        folder = RunFolder.create(logs, f"run-{number}")
        gamma = 0.9 + number / count / 10
        own = text.replace("seed: 4242", f"seed: {number}").replace("0.4242", f"{gamma}")
        folder.write_config(own.replace("experiment_name: run", f"experiment_name: {folder.name}"))
        write_manifest(folder.manifest, {**manifest, "seeds": {"root": number}})
        figures: Any = {**RATE, "rate": number / count}
        write_summary(folder.summary, {**summary, "success_after": figures, "seed": number})


def _spec() -> Any:
    from rlcore_testing.toy_settings import ToyEnvConfig, env_spec

    return env_spec(ToyEnvConfig())


if __name__ == "__main__":
    main()
