"""CPU time of PPO's update on a rollout, against the same optimizer steps in bare PyTorch.

    python benchmarks/update.py [--repeats N] [--quick] [--json PATH] [key=value ...]

Plays one training rollout of quickstart_ppo, then makes an update in two ways, by turns and from
the same weights. Ours: `Learner.update`, as the actor calls it. Bare: a loop of forward, clipped
surrogate and value loss, backward, clipping of the gradient's norm and Adam over as many
minibatches of as many decisions. One thread each, so that CPU time is work.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from parts.learners import Played, make_learner, make_policy, play
from parts.machine import Machine

from rlcore.config.compose import compose
from rlcore.placement import Inventory
from rlcore.training.assembly import Assembly, assemble

WORDS = (
    "experiment=quickstart_ppo",
    "sft.enabled=false",
    "cluster.backend=local",
    "cluster.torch_threads=1",
    "cluster.component_placement={env: all:0, rollout: all:0, actor: all:0}",
    "algorithm.critic_warmup_updates=0",  # the policy learns in the first update too
)
QUICK = (
    "env.train.total_num_envs=4",
    "env.train.rollout_epoch=1",
    "env.train.max_episode_steps=20",
    "env.eval.max_episode_steps=20",
    "actor.global_batch_size=4",
    "actor.micro_batch_size=4",
)
AIM = 1.05


@dataclass(frozen=True)
class Report:
    """What one run of this benchmark measured.

    Attributes:
        decisions: decisions of the rollout.
        steps: optimizer steps of an update.
        ours, bare: CPU seconds of an update; medians.
    """

    machine: Machine
    decisions: int
    steps: int
    ours: float
    bare: float

    @property
    def ratio(self) -> float:
        return self.ours / self.bare

    def lines(self) -> list[str]:
        """For people."""
        return [
            *self.machine.lines(),
            f"an update on {self.decisions} decisions, {self.steps} optimizer steps, one thread",
            f"  ours          {self.ours:8.2f} CPU s",
            f"  bare PyTorch  {self.bare:8.2f} CPU s   ours / bare {self.ratio:.2f}   (aim {AIM})",
        ]


def measure(overrides: Sequence[str], repeats: int) -> Report:
    """Measure both ways by turns."""
    torch.set_num_threads(1)
    assembly = assemble(compose([*WORDS, *overrides]))
    machine = Machine.this(sum(node.cpus for node in Inventory.local().nodes))
    played = play(assembly)
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(repeats + 1):
        learner, _ = make_learner(assembly, played.weights)
        batch = copy.copy(played.trajectory)
        begin = time.process_time()
        metrics = learner.update(batch, 0)
        ours.append(time.process_time() - begin)
        steps = int(metrics["train/actor/optimizer_steps"])
        bare.append(bare_update(assembly, played, steps))
    return Report(
        machine,
        decisions=len(next(iter(played.trajectory.inputs.values()))),
        steps=steps,
        ours=median(ours[1:]),  # the first of each warms up
        bare=median(bare[1:]),
    )


def bare_update(assembly: Assembly, played: Played, steps: int) -> float:
    """Return the CPU seconds of as many optimizer steps in a plain training loop."""
    config: Any = assembly.config
    trajectory = played.trajectory
    policy: Any = make_policy(assembly, played.weights)
    parameters = [parameter for group in policy.parameter_groups().values() for parameter in group]
    optimizer = torch.optim.Adam(parameters, lr=config.actor.optim.lr)
    decided = trajectory.sample_index >= 0
    rows, order = trajectory.sample_index[decided].sort()
    old_logprobs = trajectory.logprobs[decided][order]
    old_values = trajectory.values[decided][order]
    batches = list(rows.split(config.actor.global_batch_size))
    begin = time.process_time()
    for step in range(steps):
        batch = batches[step % len(batches)]
        optimizer.zero_grad()
        for piece in batch.split(config.actor.micro_batch_size):
            now = policy.evaluate(
                {name: array[piece] for name, array in trajectory.inputs.items()},
                {name: array[piece] for name, array in trajectory.replay.items()},
            )
            ratio = torch.exp(now.logprobs.sum((-2, -1)) - old_logprobs[piece].sum((-2, -1)))
            surrogate = torch.minimum(ratio, ratio.clamp(0.8, 1.2)).mean()
            value_loss = torch.nn.functional.mse_loss(now.values, old_values[piece])
            loss = (value_loss - surrogate) * (len(piece) / len(batch))
            loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("overrides", nargs="*", help="keys, as of rlcore train")
    parser.add_argument("--repeats", type=int, default=3, help="measured updates of each way")
    parser.add_argument("--quick", action="store_true", help="does it run? figures mean nothing")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_intermixed_args()
    quick = QUICK if options.quick else ()
    report = measure([*quick, *options.overrides], 1 if options.quick else options.repeats)
    print("\n".join(report.lines()))
    if options.json is not None:
        figures = {**asdict(report), "ratios": {"ours/bare": report.ratio}}
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
