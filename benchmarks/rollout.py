"""Env steps per second of quickstart_ppo's rollout, against a bound and a peer, in one run.

    python benchmarks/rollout.py [--quick] [--json PATH] [key=value ...]

See docs/benchmarks.md for what each figure means.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # processes of the peer import this file again, and need none of it
    from parts.bound import Costs
    from parts.machine import Machine
    from parts.ours import Rollout

    from rlcore.training.assembly import Assembly

AIM_OF_BOUND, AIM_OF_PEER = 0.8, 4.0
BATCHES = (8, 16, 32, 64, 128)
QUICK = (
    "env.train.total_num_envs=4",
    "env.train.rollout_epoch=1",
    "env.train.max_episode_steps=20",
    "env.eval.max_episode_steps=20",
)


@dataclass(frozen=True)
class Effort:
    """How long to measure.

    Attributes:
        rollouts: measured rollouts of ours.
        episodes: of each task, over which components are timed.
        batches: sizes at which the policy is tried alone.
        peer_envs: numbers of envs at which the peer is tried.
        peer_repeats: episodes of the peer, at each number.
    """

    rollouts: int
    episodes: int
    batches: Sequence[int]
    peer_envs: Sequence[int]
    peer_repeats: int


@dataclass(frozen=True)
class Report:
    """Everything that was measured. Speeds are env steps per second."""

    machine: Machine
    overrides: Sequence[str]
    rollouts: list[Rollout]
    rollout: Rollout
    costs: Costs
    crowded: Costs
    peer: dict[int, float]

    @property
    def bound(self) -> float:
        return self.costs.speed(self.rollout.work, self.machine.cores)

    @property
    def crowded_bound(self) -> float:
        """The same from components measured while the other cores were busy."""
        return self.crowded.speed(self.rollout.work, self.machine.cores)

    @property
    def best_peer(self) -> int:
        return max(self.peer, key=lambda size: self.peer[size])

    def lines(self) -> list[str]:
        """The table."""
        ours, peer = self.rollout.speed, self.peer[self.best_peer]
        speeds = sorted(round(rollout.speed) for rollout in self.rollouts)
        return [
            *self.machine.lines(),
            "",
            "env steps per second",
            f"  ours           {ours:8.0f}   median of {speeds}",
            f"  bound          {self.bound:8.0f}   ours / bound {ours / self.bound:6.2f}"
            f"   (aim {AIM_OF_BOUND})",
            f"    all cores busy {self.crowded_bound:6.0f}"
            f"   ours / it    {ours / self.crowded_bound:6.2f}",
            f"  AsyncVectorEnv {peer:8.0f}   ours / peer  {ours / peer:6.2f}"
            f"   (aim {AIM_OF_PEER:g}), {self.best_peer} envs, its best of "
            + ", ".join(f"{size}: {speed:.0f}" for size, speed in self.peer.items()),
            "",
            *self._cost_lines(),
            "",
            *self._time_lines(),
        ]

    def _cost_lines(self) -> list[str]:
        work = self.rollout.work
        alone, busy = self.costs.cpu(work), self.crowded.cpu(work)
        decisions = sum(one.decisions for one in work)
        times = {
            "reset": sum(one.episodes for one in work),
            "physics": self.rollout.env_steps,
            "render": decisions,
            "policy": decisions,
        }
        batches = ", ".join(f"{size}: {row * 1e3:.2f}" for size, row in self.costs.rows.items())
        return [
            "components alone       times  CPU ms each  all cores busy  CPU s a rollout",
            *(
                f"  {name:<10}{count:16d}{alone[name] / count * 1e3:13.2f}"
                f"{busy[name] / count * 1e3:16.2f}{alone[name]:17.2f}"
                for name, count in times.items()
            ),
            f"  {'all':<10}{'':45}{sum(alone.values()):17.2f}",
            f"  policy, CPU ms per row by batch: {batches}",
        ]

    def _time_lines(self) -> list[str]:
        rollout, cores = self.rollout, self.machine.cores
        whole = rollout.wall * cores
        needed = self.crowded.cpu(rollout.work)
        alone = {"policy worker": needed.pop("policy"), "simulators": sum(needed.values())}
        busy = sum(rollout.cpu.values())
        shares = ", ".join(f"{seconds:.2f}" for seconds in rollout.simulators)
        lines = [
            f"where {rollout.wall:.2f} s x {cores} cores go    CPU s    share"
            "   components, all cores busy",
            *(
                f"  {role:<24}{seconds:10.2f}{seconds / whole:9.1%}"
                + (f"{alone[role]:10.2f}" if role in alone else "")
                for role, seconds in sorted(rollout.cpu.items(), key=lambda item: -item[1])
            ),
            f"  {'cores unused by the run':<24}{whole - busy:10.2f}{(whole - busy) / whole:9.1%}",
            f"  simulator processes, CPU s each: {shares}",
            "  wall s: "
            + ", ".join(f"{name} {seconds:.2f}" for name, seconds in rollout.phases.items()),
        ]
        return lines

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        ours, peer = self.rollout.speed, self.peer[self.best_peer]
        return {
            "machine": asdict(self.machine),
            "overrides": list(self.overrides),
            "env_steps_per_second": {
                "ours": ours,
                "ours_all": [rollout.speed for rollout in self.rollouts],
                "bound": self.bound,
                "bound_all_cores_busy": self.crowded_bound,
                "peer": peer,
                "peer_by_envs": self.peer,
            },
            "ratios": {
                "ours/bound": ours / self.bound,
                "ours/bound_all_cores_busy": ours / self.crowded_bound,
                "ours/peer": ours / peer,
            },
            "components": asdict(self.costs) | {"best_batch": self.costs.best_batch},
            "components_all_cores_busy": asdict(self.crowded),
            "rollout": asdict(self.rollout),
        }


def main() -> None:
    """Measure ours, the bound and the peer, one after another, and print the table."""
    options = _arguments()
    # ours sets this for its simulators; MuJoCo and Mesa in this process must find it the same
    os.environ.setdefault("LP_NUM_THREADS", "1")
    overrides = ["experiment=quickstart_ppo", *(QUICK if options.quick else ()), *options.overrides]
    report = measure(overrides, _effort(options))
    print("\n".join(report.lines()))
    if options.json is not None:
        options.json.write_text(json.dumps(report.as_json(), indent=2) + "\n", encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)  # software GL complains in its exit handlers


def measure(overrides: Sequence[str], effort: Effort) -> Report:
    """All three, on the composition of `overrides`."""
    from parts.machine import Machine
    from parts.ours import measure_rollouts, median

    from rlcore.config.compose import compose
    from rlcore.contracts.errors import PlacementError
    from rlcore.training.assembly import assemble

    assembly = assemble(compose(overrides))
    inventory = assembly.placement.inventory
    if inventory.kind == "GPU":
        raise PlacementError(
            "the bound counts CPU-seconds, and here the policy would run on an accelerator",
            hint="CUDA_VISIBLE_DEVICES= python benchmarks/rollout.py",
        )
    cores = inventory.nodes[0].cpus
    machine = Machine.this(cores)
    _say(f"ours: {effort.rollouts + 1} rollouts")
    rollouts = measure_rollouts(assembly, effort.rollouts)
    rollout = median(rollouts)
    costs, crowd, peer = _components_and_peer(assembly, effort, cores)
    return Report(
        machine=machine,
        overrides=overrides,
        rollouts=rollouts,
        rollout=rollout,
        costs=costs,
        crowded=crowd,
        peer=peer,
    )


def _components_and_peer(
    assembly: Assembly, effort: Effort, cores: int
) -> tuple[Costs, Costs, dict[int, float]]:
    """In this process, once ours has ended: it reads MUJOCO_GL when MuJoCo is imported."""
    from rlcore_env_metaworld.cameras import CAMERAS
    from rlcore_env_metaworld.settings import MetaWorldConfig
    from rlcore_mujoco.gl import choose_gl

    os.environ["MUJOCO_GL"] = choose_gl() or ""
    from parts.bound import crowded, measure_costs
    from parts.peer import Scene, measure_peer
    from parts.policy import Actor

    config, spec = assembly.config.env.train, assembly.env_specs["train"]
    assert isinstance(config, MetaWorldConfig), "the bound and the peer are MetaWorld's"
    actor = Actor(assembly)
    _say("components alone")
    costs = measure_costs(config, spec, actor, effort.episodes, effort.batches)
    _say(f"components while {cores - 1} other cores are busy")
    with crowded(config, spec, others=cores - 1):
        crowd = measure_costs(config, spec, actor, effort.episodes, effort.batches)
    _say(f"AsyncVectorEnv with {', '.join(map(str, effort.peer_envs))} envs")
    mount = CAMERAS[config.camera]
    scene = Scene(
        tasks=spec.tasks,
        sentences=spec.instructions,
        camera=mount.name,
        position=mount.position,
        size=config.image_size,
        max_steps=config.max_episode_steps,
        fast=config.fast_render,
    )
    peer = measure_peer(scene, actor, effort.peer_envs, effort.peer_repeats, cores)
    return costs, crowd, peer


def _say(what: str) -> None:
    print(f"measuring {what} ...", file=sys.stderr, flush=True)


def _effort(options: argparse.Namespace) -> Effort:
    if options.quick:
        return Effort(1, 1, (8,), (3,), 1)
    return Effort(options.rollouts, 4, BATCHES, options.peer_envs, 3)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("overrides", nargs="*", help="changes to experiment=quickstart_ppo")
    parser.add_argument("--rollouts", type=int, default=5, help="measured rollouts of ours")
    parser.add_argument(
        "--peer-envs",
        type=lambda text: tuple(int(part) for part in text.split(",")),
        default=(3, 6, 12),
        help="numbers of envs at which the peer is tried; best a multiple of the tasks",
    )
    parser.add_argument("--quick", action="store_true", help="does it run? figures mean nothing")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    return parser.parse_intermixed_args()


if __name__ == "__main__":
    main()
