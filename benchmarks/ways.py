"""What RLinf's way of working costs: each of its habits alone, and all together.

    python benchmarks/ways.py [--repeats N] [--quick] [--json PATH] [key=value ...]

Plays the rollout of an update of quickstart_ppo and makes the update, as `rlcore train` does, in
each way. See docs/benchmarks.md for the ways.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from parts.machine import Machine
from parts.ours import cpu_by_process, cpu_used, training_order
from parts.reference_env import ReferenceConfig
from safetensors.torch import load_file

from rlcore.config.compose import compose
from rlcore.placement import Inventory
from rlcore.training.assembly import Assembly, assemble
from rlcore.training.gather import gather
from rlcore.workers.backend import make_group
from rlcore.workers.env_worker import EnvWorkerSettings
from rlcore.workers.group import WorkerGroup
from rlcore.workers.policy_worker import PolicyWorkerSettings
from rlcore.workers.worker_specs import Member

WORDS = (
    "experiment=quickstart_ppo",
    "sft.enabled=false",
    "cluster.torch_threads=1",  # so that CPU time is work: threads that wait may spin
)
LOCKSTEP = (
    "env.train.ignore_terminations=true",  # all rows go on until the last episode ends
    "rollout.pipeline_stage_num=1",  # simulators and policy wait for each other
    # trajectory and weights are copied between two workers
    "cluster.component_placement={env: all:0, rollout: 0:0, actor: all:0}",
)
QUICK = (
    "env.train.total_num_envs=4",
    "env.train.rollout_epoch=1",
    "env.train.max_episode_steps=40",
    "actor.global_batch_size=8",
    "actor.micro_batch_size=8",
    "cluster.backend=local",
)
AIM = 3.0


@dataclass(frozen=True)
class Way:
    """A way of working: RLinf's habits that it has.

    Attributes:
        frame_every_step: a frame is rendered at every env step, not once per chunk.
        masked: samples that are not trained on are evaluated, not left out.
        lockstep: episodes go on until all have ended, nothing overlaps, and rollout and actor are
            apart.
        pickled: observations are pickled into pipes, not written into shared memory.
    """

    frame_every_step: bool = False
    masked: bool = False
    lockstep: bool = False
    pickled: bool = False


OURS = "rlcore"
ALL = "all four"
WAYS = {
    OURS: Way(),
    "a frame at every step": Way(frame_every_step=True),
    "masked samples evaluated": Way(masked=True),
    "lockstep": Way(lockstep=True),
    "observations pickled": Way(pickled=True),
    ALL: Way(True, True, True, True),
}
ALGORITHMS = {
    (True, False): "parts.reference_update:masked",
    (False, True): "parts.reference_update:trimmed",
    (True, True): "parts.reference_update:masked_and_trimmed",
}
"""Target by (masked, lockstep)."""


@dataclass(frozen=True)
class Cost:
    """What the rollout and the update of one update cost.

    Attributes:
        rollout, update: CPU seconds of all processes; the update includes the transfers of
            trajectory and weights.
        wall: seconds of both.
        env_steps: of the rollout's report, those after a success included.
        trained: samples that were trained on, over all epochs of an update.
        episodes: episodes of the rollout.
        success: share of them that succeeded.
    """

    rollout: float
    update: float
    wall: float
    env_steps: int
    trained: int
    episodes: int
    success: float

    @property
    def cpu(self) -> float:
        return self.rollout + self.update


@dataclass(frozen=True)
class Report:
    """What one run of this benchmark measured.

    Attributes:
        costs: by way.
        apart: largest difference of a weight to rlcore's after all updates, by way. They learn from
            the same samples, so rounding alone makes it.
    """

    machine: Machine
    overrides: Sequence[str]
    costs: Mapping[str, Cost]
    apart: Mapping[str, float]

    def ratios(self, unit: str) -> dict[str, float]:
        """Return each way's cost over that of rlcore's; `unit` is "cpu" or "wall"."""
        ours = getattr(self.costs[OURS], unit)
        return {way: getattr(cost, unit) / ours for way, cost in self.costs.items()}

    def lines(self) -> list[str]:
        """For people."""
        cpu = self.ratios("cpu")
        wall = self.ratios("wall")
        ours = self.costs[OURS]
        rows = [
            f"{way:26}{cost.env_steps:10d}{cost.trained:9d}{cost.rollout:12.2f}{cost.update:9.2f}"
            f"{cost.cpu:8.2f}{cpu[way]:7.2f}{cost.wall:8.2f}{wall[way]:7.2f}"
            f"{self.apart[way]:9.0e}"
            for way, cost in self.costs.items()
        ]
        return [
            *self.machine.lines(),
            f"one update of {ours.episodes} episodes, success {ours.success:.2f}"
            f"   (aim: {ALL} at least {AIM:g} times rlcore; wall needs a quiet machine)",
            f"{'':26}{'env steps':>10}{'samples':>9}{'rollout CPU':>12}{'update':>9}{'CPU s':>8}"
            f"{'ratio':>7}{'wall s':>8}{'ratio':>7}{'apart':>9}",
            *rows,
        ]


def assembly_of(way: Way, overrides: Sequence[str]) -> Assembly:
    """Return the parts of a run that works in this way."""
    words = [*overrides, *(LOCKSTEP if way.lockstep else ())]
    config = compose([*WORDS, *words])
    assembly = assemble(config)
    side = assembly.sides["train"]
    switches = {
        "frame_every_step": way.frame_every_step,
        "pickled": way.pickled,
        "drawn_ends": config.actor.model.model_path is None,
    }
    env: Any = ReferenceConfig.of(side.config, **switches)  # type: ignore[arg-type]
    train = replace(side, target="parts.reference_env:make_env", config=env)
    algorithm = ALGORITHMS.get((way.masked, way.lockstep))

    def adapted(member: Member) -> Member:
        settings = member.settings
        if isinstance(settings, EnvWorkerSettings):
            return replace(member, settings=replace(settings, sides={"train": train}))
        assert isinstance(settings, PolicyWorkerSettings)
        target = algorithm or settings.algorithm_target
        return replace(member, settings=replace(settings, algorithm_target=target))

    members = {
        role: tuple(adapted(member) for member in workers)
        for role, workers in assembly.worker_specs.members.items()
    }
    return replace(assembly, worker_specs=replace(assembly.worker_specs, members=members))


def measure_way(assembly: Assembly, repeats: int) -> tuple[Cost, dict[str, torch.Tensor]]:
    """Return the update of median CPU time among `repeats`, after one that warms up, and the
    weights after all of them."""
    with make_group(assembly.worker_specs) as group:
        group.start()
        group.sync()
        costs = [cost_of(group, assembly, update) for update in range(repeats + 1)][1:]
        with tempfile.TemporaryDirectory(prefix="rlcore-ways-") as folder:
            group.save(Path(folder))
            weights = {
                name: weight
                for file in Path(folder).glob("*.safetensors")
                for name, weight in load_file(file).items()
            }
    return sorted(costs, key=lambda cost: cost.cpu)[(repeats - 1) // 2], weights


def largest_difference(
    weights: Mapping[str, torch.Tensor], others: Mapping[str, torch.Tensor]
) -> float:
    """Return the largest difference of a weight."""
    return max(float((weight - others[name]).abs().max()) for name, weight in weights.items())


def cost_of(group: WorkerGroup, assembly: Assembly, update: int) -> Cost:
    """Play the episodes of an update, and make it."""
    before = cpu_by_process()
    begin = time.perf_counter()
    gathered = gather(group, assembly, training_order(assembly, update))
    played = cpu_by_process()
    group.send_trajectory()
    metrics = group.update(update)
    group.sync()
    wall = time.perf_counter() - begin
    outcomes = gathered.outcomes
    return Cost(
        rollout=cpu_used(before, played),
        update=cpu_used(played, cpu_by_process()),
        wall=wall,
        env_steps=gathered.env_steps,
        trained=int(metrics["train/actor/trained_samples"]),
        episodes=len(outcomes),
        success=sum(outcome.success for outcome in outcomes) / len(outcomes),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("overrides", nargs="*", help="changes to experiment=quickstart_ppo")
    parser.add_argument("--repeats", type=int, default=3, help="measured updates of each way")
    parser.add_argument("--quick", action="store_true", help="does it run? figures mean nothing")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_intermixed_args()
    overrides = [*(QUICK if options.quick else ()), *options.overrides]
    machine = Machine.this(sum(node.cpus for node in Inventory.local().nodes))
    repeats = 1 if options.quick else options.repeats
    costs: dict[str, Cost] = {}
    weights: dict[str, dict[str, torch.Tensor]] = {}
    for name, way in WAYS.items():
        print(f"measuring: {name} ...", file=sys.stderr, flush=True)
        costs[name], weights[name] = measure_way(assembly_of(way, overrides), repeats)
        print(f"  {costs[name]}", file=sys.stderr, flush=True)
    apart = {name: largest_difference(learned, weights[OURS]) for name, learned in weights.items()}
    report = Report(machine, overrides, costs, apart)
    print("\n".join(report.lines()))
    if options.json is not None:
        ratios = {"cpu": report.ratios("cpu"), "wall": report.ratios("wall")}
        figures = {**asdict(report), "ratios": ratios}
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
