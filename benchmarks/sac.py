"""SAC beside Stable-Baselines3's: env steps a CPU second, and success by env steps.

    python benchmarks/sac.py [--steps N] [--seed N] [--peer-python PATH] [--json PATH]

Both learn MetaWorld's reach-v3 from its state, from scratch: two hidden layers of 256, two critics,
batches of 256, one gradient step of critics and policy for each env step, a learned temperature,
equal rates and discounts. Each side is a process of its own on one thread. CPU seconds include
those of its children, and are counted between the first and the last line of its log, so start-up
is left out. Success is that of training episodes. rlcore's network differs in that it encodes the
state in one layer of 64 and normalises hidden layers (LayerNorm).

Stable-Baselines3 is no dependency: `--peer-python` is a Python that has it, and by default the
script makes one in .venv-sb3, on top of this one's packages.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

PARTS = Path(__file__).parent / "parts"
WINDOW = 400  # env steps of a line of the log: four episodes
VENV = Path(".venv-sb3")


@dataclass(frozen=True)
class Row:
    """A line of a side's log: env steps, CPU seconds of the process, success of the episodes."""

    env_steps: int
    cpu_seconds: float
    success: float


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=8000, help="env steps of each side")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peer-python", help="a Python with stable_baselines3")
    parser.add_argument("--json", type=Path, help="where to write the rows")
    arguments = parser.parse_args()
    peer = arguments.peer_python or make_venv()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "peer.jsonl"
        commands = {
            "stable-baselines3": ([peer, str(PARTS / "sac_peer.py"), str(log)], log),
            "rlcore": (ours(folder), Path(folder) / "run" / "metrics.jsonl"),
        }
        sides = {}
        for name, (command, file) in commands.items():
            environ = {"SAC_STEPS": str(arguments.steps), "SAC_SEED": str(arguments.seed)}
            command = [
                part.format(**environ, UPDATES=arguments.steps // WINDOW) for part in command
            ]
            sides[name] = list(watch(command, file, environ))
    for name, rows in sides.items():
        spent = rows[-1].cpu_seconds - rows[0].cpu_seconds
        rate = (rows[-1].env_steps - rows[0].env_steps) / spent
        print(f"{name}: {rate:.1f} env steps a CPU second; success by env steps:")
        print("  " + ", ".join(f"{row.env_steps}: {row.success:.2f}" for row in rows))
    if arguments.json:
        found = {name: [asdict(row) for row in rows] for name, rows in sides.items()}
        arguments.json.write_text(json.dumps(found, indent=1))


def ours(folder: str) -> list[str]:
    """Return rlcore's command, with places for the number of updates and the seed."""
    sides = [
        f"env.{side}.{setting}"
        for side in ("train", "eval")
        for setting in (
            "id=reach:Reach-v0",
            "cameras={{}}",
            "success=info:success",
            "max_episode_steps=100",
            "total_num_envs=4",
            "num_processes=0",
        )
    ]
    return [
        str(Path(sys.executable).with_name("rlcore")),
        "train",
        "env=gymnasium",
        "model=gaussian",
        "algorithm=sac",
        *sides,
        "cluster.backend=local",
        "cluster.torch_threads=1",
        "runner.seed={SAC_SEED}",
        "runner.max_epochs={UPDATES}",
        "runner.val_before_train=false",
        "env.eval.trials_per_task=4",
        "runner.logger.logger_backends=[]",
        f"runner.logger.log_path={folder}",
        "runner.logger.experiment_name=run",
        "actor.model.num_action_chunks=1",
        "actor.model.init_std=1.0",
        "actor.optim.lr=3e-4",
        "actor.optim.lr_scheduler=constant",
        "actor.micro_batch_size=256",
        f"algorithm.steps={WINDOW}",
        "algorithm.actor_every=1",
        "algorithm.batch_size=256",
        "algorithm.demonstrations=0",
        "algorithm.critics=2",
        "algorithm.gamma=0.99",
        "algorithm.alpha=1.0",
        "algorithm.target_entropy=-4.0",
        "algorithm.backup_entropy=true",
        "algorithm.augment=false",
        "algorithm.warmup=0",
    ]


def watch(command: list[str], log: Path, environ: dict[str, str]) -> Iterator[Row]:
    """Run a side and yield a row for each line of its log that has the success of episodes.

    Raises:
        CalledProcessError: the side failed.
    """
    path = os.pathsep.join([str(PARTS), os.environ.get("PYTHONPATH", "")])
    environ = {**os.environ, **environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    process = psutil.Popen(command, env=environ, stdout=subprocess.DEVNULL)
    read = 0
    while True:
        running = process.poll() is None
        lines = log.read_text().splitlines() if log.exists() else []
        cpu = cpu_seconds(process) if running else 0.0
        for line in lines[read:]:
            numbers = json.loads(line)
            if running and "env/success_once" in numbers:
                yield Row(numbers["step"] * WINDOW, cpu, numbers["env/success_once"])
        read = len(lines)
        if not running:
            break
        time.sleep(0.1)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def cpu_seconds(process: psutil.Popen) -> float:
    """Return the CPU seconds of a process and its children so far."""
    every = [process, *process.children(recursive=True)]
    return sum(sum(each.cpu_times()[:2]) for each in every)


def make_venv() -> str:
    """Make a venv with Stable-Baselines3 on top of this Python's packages; return its Python."""
    python = VENV / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        scheme = {"base": str(VENV), "platbase": str(VENV)}
        packages = Path(sysconfig.get_path("purelib", "venv", scheme))
        (packages / "rlcore_env.pth").write_text(sysconfig.get_path("purelib"))
        install = ["-m", "pip", "install", "-q", "--no-deps", "stable-baselines3", "cloudpickle"]
        subprocess.run([python, *install], check=True)
    return str(python)


if __name__ == "__main__":
    main()
