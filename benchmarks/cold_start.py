"""Seconds from `rlcore train experiment=quickstart_ppo` to the first env step and the first update.

    python benchmarks/cold_start.py [--repeats N] [--json PATH] [key=value ...]

Runs the command itself, its phases whose length is work and not start-up cut down to a few steps,
and notes when it says that a phase has ended. See docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from parts.machine import Machine

from rlcore.placement import Inventory

EXPERIMENT = "experiment=quickstart_ppo"
SHORT = (
    "collect.episodes_per_task=2",
    "sft.max_steps=1",
    "runner.max_epochs=1",
    "env.train.total_num_envs=4",
    "env.train.rollout_epoch=1",
    "env.eval.total_num_envs=4",
    "env.eval.trials_per_task=4",
    "env.eval.video_cfg.save_video=false",
)
"""Every phase once and as short as it goes, so that what is left is start-up."""
PHASE = re.compile(r"^(?:\[\d+(?:/\d+)?\] )?(?P<name>[^:/]+)(?:/\d+)?: .*?(?P<seconds>\d+\.\d) s\b")
FOLDER = "run folder: "
FIRST_STEPS, FIRST_UPDATE = "demonstrations", "update 1"
# What happens before a run says its first word, each in a fresh process.
ALONE = {
    "python alone": ["-c", "pass"],
    "importing the command": ["-c", "import rlcore.cli.main, rlcore.cli.verbs"],
    "... and torch": ["-c", "import torch"],
    "... and ray": ["-c", "import ray"],
    "starting and stopping a Ray cluster": [
        "-c",
        "from rlcore.config.schema import ClusterConfig\n"
        "from rlcore_ray.cluster import cluster_session\n"
        "with cluster_session(ClusterConfig()): pass",
    ],
    "compose, check, plan (--dry-run)": ["-m", "rlcore.cli.main", "train", EXPERIMENT, "--dry-run"],
}


@dataclass(frozen=True)
class Event:
    """Something the run said: what, and how many seconds after its start."""

    what: str
    at: float


def main() -> None:
    """Run the command `--repeats` times and print when each phase was over."""
    options = _arguments()
    machine = Machine.this(Inventory.local().nodes[0].cpus)
    runs = [start(options.overrides) for _ in range(options.repeats)]
    alone = {name: _seconds(arguments, options.repeats) for name, arguments in ALONE.items()}
    events = _medians(runs)
    print("\n".join([*machine.lines(), "", *_lines(events, alone)]))
    if options.json is not None:
        figures = {
            "machine": asdict(machine),
            "events": [asdict(event) for event in events],
            "first_env_step": _at(events, FIRST_STEPS),
            "first_update": _at(events, FIRST_UPDATE),
            "alone": alone,
        }
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def start(overrides: Sequence[str]) -> list[Event]:
    """One run from its first instruction to its last: the ends of its phases, in order.

    Raises:
        RuntimeError: the run failed, or did not say what is listened for.
    """
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        command = [sys.executable, "-m", "rlcore.cli.main", "train", EXPERIMENT, *SHORT]
        run = subprocess.Popen(
            [*command, f"runner.logger.log_path={folder}", *overrides],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert run.stdout is not None
        events, said = [], []
        for line in run.stdout:
            now = time.perf_counter() - begin
            said.append(line)
            if line.startswith(FOLDER) and not events:
                events.append(Event("configured, folder made", now))
            phase = PHASE.match(line)
            if phase is not None:
                events.append(Event(phase["name"], now))
        events.append(Event("process ended", time.perf_counter() - begin))
        if run.wait() != 0:
            raise RuntimeError(f"the run ended with {run.returncode}:\n{''.join(said)}")
    for needed in (FIRST_STEPS, FIRST_UPDATE):
        if needed not in {event.what for event in events}:
            raise RuntimeError(f"the run never said {needed!r} is over:\n{''.join(said)}")
    return events


def _medians(runs: Sequence[list[Event]]) -> list[Event]:
    """Each event at its median time; runs of one configuration say the same in one order."""
    return [
        Event(same[0].what, median(event.at for event in same)) for same in zip(*runs, strict=True)
    ]


def _at(events: Sequence[Event], what: str) -> float:
    return next(event.at for event in events if event.what == what)


def _seconds(arguments: Sequence[str], repeats: int) -> float:
    """Median wall seconds of a fresh interpreter that does this."""
    spent = []
    for _ in range(repeats):
        begin = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        spent.append(time.perf_counter() - begin)
    return median(spent)


def _lines(events: Sequence[Event], alone: dict[str, float]) -> list[str]:
    before = 0.0
    lines = ["seconds from the command   at    took"]
    for event in events:
        lines.append(f"  {event.what:<24}{event.at:7.1f}{event.at - before:7.1f}")
        before = event.at
    lines += [
        f"first environment step: before {_at(events, FIRST_STEPS):.1f} s "
        "(the end of the first, shortened, phase that steps one)",
        f"first policy update done: {_at(events, FIRST_UPDATE):.1f} s",
        "",
        "parts of it alone, seconds of a fresh process",
    ]
    return lines + [f"  {name:<38}{seconds:7.2f}" for name, seconds in alone.items()]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("overrides", nargs="*", help="further changes to experiment=quickstart_ppo")
    parser.add_argument("--repeats", type=int, default=3, help="runs; medians are printed")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    return parser.parse_intermixed_args()


if __name__ == "__main__":
    main()
