"""Eight short runs of a sweep, one after another and side by side: wall time, and whether they
come to the same.

    python benchmarks/sweep.py [--of toy|quickstart_ppo] [--runs N] [--json PATH]

Each run has one core's worth of threads in either way (`cluster.torch_threads=1`), in one process.
`bound` is what nobody can go below who plays them on these cores: the CPU seconds of all processes
of the sweep, starting them included, divided by the cores. Equal means: every figure of
metrics.jsonl but times, and every episode of every evaluation, to the bit. See docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from parts.machine import Machine

from rlcore.runs.tables import read_results

ALIKE = ["cluster.backend=local", "cluster.torch_threads=1", "runner.max_epochs=2"]
WORDS = {
    "toy": [
        *("env=toy", "model=toy", "algorithm=ppo"),
        *("cluster.component_placement={env: 0, rollout: 0, actor: 0}", "env.*.total_num_envs=16"),
        *("env.eval.trials_per_task=8", "actor.global_batch_size=64", "actor.micro_batch_size=64"),
    ],
    "quickstart_ppo": [
        *("quickstart_ppo", "env.*.tasks=[button-press-v3]", "env.*.total_num_envs=4"),
        *("env.train.rollout_epoch=1", "env.eval.trials_per_task=4"),
        *("env.eval.video_cfg.save_video=false", "collect.episodes_per_task=2"),
        *("sft.max_steps=20", "actor.global_batch_size=32", "actor.micro_batch_size=32"),
    ],
}
TIMED = ("time", "per_second")


def main() -> None:
    """Play both, print what they took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--of", choices=WORDS, default="toy", help="what is played")
    parser.add_argument("--runs", type=int, default=8, help="of the sweep")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    machine = Machine.this(cores)
    print("\n".join(machine.lines()))
    figures: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as place:
        for name, parallel in (("one after another", 1), ("side by side", cores)):
            figures[name] = play(options.of, options.runs, parallel, Path(place, name))
            wall, bound = figures[name]["wall"], figures[name]["cpu"] / cores
            print(
                f"{name:18} {wall:7.1f} s  bound {bound:7.1f} s  wall / bound {wall / bound:5.2f}"
                f"  load then {os.getloadavg()[0]:.2f}",
                flush=True,
            )
        first, other = (results(Path(place, name)) for name in figures)
    equal = [job for job in first if first[job] == other.get(job)]
    print(f"equal to the bit: {len(equal)} of {len(first)} runs")
    if options.json:
        kept = {"machine": vars(machine), "sweeps": figures, "equal": len(equal)}
        options.json.write_text(json.dumps(kept))


def play(of: str, runs: int, parallel: int, folder: Path) -> dict[str, float]:
    """Seconds of a sweep: `wall`, and `cpu` of all its processes."""
    words = [*WORDS[of], *ALIKE, f"runner.seed=range({runs})", f"sweep.parallel={parallel}"]
    command = [sys.executable, "-m", "rlcore.cli.main", "train", *words, "-m"]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([*command, f"hydra.sweep.dir={folder}"], capture_output=True, text=True)
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": wall, "cpu": cpu, "runs": runs}


def results(sweep: Path) -> dict[str, Any]:
    """`{run: what it measured}`, times aside."""
    return {
        run.parent.name: (
            [
                {key: its for key, its in json.loads(line).items() if not is_time(key)}
                for line in run.read_text().splitlines()
            ],
            {file.name: read_results(file) for file in run.parent.glob("eval/*.parquet")},
        )
        for run in sweep.glob("*/metrics.jsonl")
    }


def is_time(key: str) -> bool:
    """Whether a figure is of time."""
    return any(each in key for each in TIMED)


if __name__ == "__main__":
    main()
