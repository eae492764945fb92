"""What a plan says that policy processes hold, against what they did hold on this machine's cores.

    python benchmarks/memory.py [--json PATH] [--only NAME ...]

Each case is a short run of the toy env, with the policy in one process or in two. The estimate is
that of `rlcore train --dry-run`; measured is the peak of resident memory since a process began, as
the kernel counts it (VmHWM). Linux only.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from parts.command import Command, title

from rlcore.checks.facts import gather_facts
from rlcore.config.compose import compose
from rlcore.plugins.registry import load_plugins

MIB = 2**20
APART = "cluster.component_placement={env: 0, rollout: 0, actor: 1}"
TOGETHER = "cluster.component_placement={env: 0, rollout: 0, actor: 0}"
SHORT = (
    "env=toy", "algorithm=ppo", "algorithm.adv_type=gae", "env.train.total_num_envs=16",
    "env.train.rollout_epoch=4", "env.eval.total_num_envs=16", "actor.global_batch_size=64",
    "actor.micro_batch_size=32", "runner.max_epochs=2", "runner.val_check_interval=-1",
    "cluster.timeouts.start=1000",
)  # fmt: skip
CASES: dict[str, tuple[str, ...]] = {
    "toy": ("model=toy", APART),
    "pi0_tiny": ("model=pi0_tiny", APART),
    "pi0_small": ("model=pi0_small", APART),
    "pi0_small, recomputed": (
        "model=pi0_small", APART, "actor.fsdp_config.gradient_checkpointing=true",
    ),
    "pi0_small, together": ("model=pi0_small", TOGETHER),
    "openvla_tiny": ("model=openvla_tiny", APART),
    "openvla_oft_tiny": ("model=openvla_oft_tiny", APART),
}  # fmt: skip
ROLES = {"rollout": "RolloutWorker", "actor": "ActorWorker", "rollout+actor": "FusedWorker"}


def main() -> None:
    """Print a table, and write it down if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=list(CASES))
    options = parser.parse_args()
    rows = []
    print("case                   process          planned MiB   measured MiB   planned / measured")
    for name in options.only:
        planned = plan((*SHORT, *CASES[name]))
        for role, peak in measure((*SHORT, *CASES[name])).items():
            share = planned[role] / peak
            print(f"{name:<22} {role:<15} {planned[role]:12.0f} {peak:14.0f} {share:20.2f}")
            rows.append({"case": name, "role": role, "planned": planned[role], "measured": peak})
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def plan(words: Sequence[str]) -> dict[str, float]:
    """MiB that each policy process is planned to hold, by its role."""
    facts = gather_facts(compose(words), load_plugins())
    return {
        role: (need.peak + need.host) / MIB for role, need in facts.memory.items() if role in ROLES
    }


def measure(words: Sequence[str]) -> dict[str, float]:
    """MiB that each policy process of a run held at its peak, by its role."""
    peaks: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "run"
        place = (f"runner.logger.log_path={parent}", "runner.logger.experiment_name=run")
        command = Command(["train", *words, *place], folder, {})
        try:
            while command.updates() < 2 and command.running():
                for role, kind in ROLES.items():
                    for process in command.processes():
                        if title(process).startswith(f"ray::{kind}"):
                            peaks[role] = max(peaks.get(role, 0.0), _peak(process.pid))
                time.sleep(0.5)
            command.wait(600)
        finally:
            command.end()
    return peaks


def _peak(pid: int) -> float:
    """MiB, since the process began; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    found = [line.split()[1] for line in lines if line.startswith("VmHWM")]
    return int(found[0]) / 1024 if found else 0.0


if __name__ == "__main__":
    main()
