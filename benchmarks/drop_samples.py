"""What it saves to leave out of an update what is not trained on, against masking it.

    python benchmarks/drop_samples.py actor.model.model_path=RUN/sft [--repeats N] [key=value ...]

Plays one training rollout, then makes the same update from it in turns, each time from the same
weights: every place of the batch evaluated and masked, what was never executed left out, and what
the filter of groups refuses left out too. See docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch
from parts.learners import Played, make_algorithm, make_learner, play
from parts.machine import Machine
from rlcore_policy_gradient import on_policy
from rlcore_policy_gradient.minibatch import Advantages
from rlcore_policy_gradient.samples import Samples, make_samples
from rlcore_policy_gradient.settings import PolicyGradientConfig

from rlcore.config.compose import compose
from rlcore.contracts.errors import ConfigError
from rlcore.contracts.trajectory import Trajectory
from rlcore.placement import Inventory
from rlcore.training.assembly import Assembly, assemble

TASKS = (
    "[button-press-v3,button-press-topdown-v3,button-press-topdown-wall-v3,button-press-wall-v3]"
)
WORDS = (
    "env=metaworld",
    "model=pi0_tiny",
    "algorithm=grpo",
    f"env.train.tasks={TASKS}",
    f"env.eval.tasks={TASKS}",
    "env.train.image_size=64",
    "env.eval.image_size=64",
    "env.train.fast_render=true",
    "env.eval.fast_render=true",
    "env.train.max_episode_steps=95",
    "env.eval.max_episode_steps=95",
    "env.train.total_num_envs=32",
    "env.train.rollout_epoch=4",
    "actor.model.openpi.max_token_len=16",
    "actor.micro_batch_size=256",
    "actor.global_batch_size=256",
    "algorithm.filter_rewards=true",
    "cluster.backend=local",
    "cluster.torch_threads=1",
    "cluster.component_placement={env: all:0, rollout: all:0, actor: all:0}",
)
"""quickstart_ppo's env and model, with groups of 8 of which those that always or never succeed are
not trained on. An optimizer step is over as many places as there, trained on or not."""
TRANSPORTS = ("masked", "executed only", "executed and within bounds")


@dataclass
class Chosen(Samples):
    """Samples of which others than those that are trained on are evaluated too, at weight 0."""

    evaluated: torch.Tensor | None = None

    @property
    def trained(self) -> torch.Tensor:
        assert self.evaluated is not None
        return self.evaluated


@dataclass(frozen=True)
class Report:
    """What one run of this benchmark measured.

    Attributes:
        places: of the batch, chunks times columns.
        evaluated: of these, by way.
        seconds: CPU time of an update on one thread, by way: the median of the repeats.
        apart: largest difference of a weight after the update to that of masking.
    """

    machine: Machine
    places: int
    success: float
    evaluated: dict[str, int]
    seconds: dict[str, float]
    apart: dict[str, float]

    def lines(self) -> list[str]:
        """For people."""
        whole = self.seconds["masked"]
        rows = [
            f"{way:28} {self.evaluated[way]:6d} {seconds:9.2f} {whole / seconds:7.2f}"
            f" {self.apart[way]:9.1e}"
            for way, seconds in self.seconds.items()
        ]
        return [
            *self.machine.lines(),
            f"{self.places} places of chunks, success {self.success:.2f}",
            f"{'an update of':28} {'evals':>6} {'CPU s':>9} {'ratio':>7} {'apart':>9}",
            *rows,
        ]


def measure(overrides: Sequence[str], repeats: int) -> Report:
    config = compose([*WORDS, *overrides])
    if config.actor.model.model_path is None:
        raise ConfigError(
            "random weights never succeed, so every group would be filtered",
            hint="actor.model.model_path=RUN/sft, of a run of experiment=quickstart_ppo",
        )
    torch.set_num_threads(1)  # so that CPU time is work, and others on the machine matter little
    assembly = assemble(config)
    machine = Machine.this(sum(node.cpus for node in Inventory.local().nodes))
    played = play(assembly)
    trajectory = played.trajectory
    seconds: dict[str, list[float]] = {way: [] for way in TRANSPORTS}
    apart: dict[str, float] = {}
    for repeat in range(repeats + 1):  # the first warms up
        weights: dict[str, dict[str, torch.Tensor]] = {}
        for way in TRANSPORTS[:: 1 if repeat % 2 else -1]:
            took, weights[way] = update(assembly, played, way)
            if repeat:
                seconds[way].append(took)
        for way in TRANSPORTS:
            apart[way] = max(
                float((weights[way][name] - weight).abs().max())
                for name, weight in weights["masked"].items()
                if weight.is_floating_point()
            )
    samples = make_samples(trajectory, advantages(assembly, trajectory), config.algorithm)
    return Report(
        machine,
        places=len(samples),
        success=played.success,
        evaluated={way: int(evaluated(samples, trajectory, way).sum()) for way in TRANSPORTS},
        seconds={way: median(took) for way, took in seconds.items()},
        apart=apart,
    )


def update(assembly: Assembly, played: Played, way: str) -> tuple[float, dict[str, torch.Tensor]]:
    """CPU seconds of an update by a learner of its own, and the weights it led to."""
    learner, policy = make_learner(assembly, played.weights)
    with _evaluating(way):
        begin = time.process_time()
        learner.update(copy.copy(played.trajectory), 0)
        took = time.process_time() - begin
    return took, {name: x.detach().clone() for name, x in policy.state_dict().items()}


def evaluated(samples: Samples, trajectory: Trajectory, way: str) -> torch.Tensor:
    """bool `[P]`: places that are evaluated."""
    return {
        "masked": torch.ones(len(samples), dtype=torch.bool),
        "executed only": trajectory.valid.any(-1).flatten(),
        "executed and within bounds": samples.trained,
    }[way]


def advantages(assembly: Assembly, trajectory: Trajectory) -> Advantages:
    algorithm: Any = make_algorithm(assembly)
    made: Advantages = algorithm.advantages(trajectory)
    return made


@contextmanager
def _evaluating(way: str) -> Iterator[None]:
    """The learner's samples made so that these places are evaluated; where nothing was decided,
    on any other input."""

    def make(trajectory: Trajectory, made: Advantages, config: PolicyGradientConfig) -> Samples:
        samples = make_samples(trajectory, made, config)
        chosen = Chosen(**vars(samples), evaluated=evaluated(samples, trajectory, way))
        return replace(chosen, row=samples.row.clamp(min=0))

    before = on_policy.make_samples
    on_policy.make_samples = make
    try:
        yield
    finally:
        on_policy.make_samples = before


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("overrides", nargs="*", help="keys, as of rlcore train")
    parser.add_argument("--repeats", type=int, default=5, help="measured updates of each way")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
    report = measure(options.overrides, options.repeats)
    print("\n".join(report.lines()))
    if options.json is not None:
        options.json.write_text(json.dumps(asdict(report), indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
