"""Batched ManiSkill on a GPU with a model of real size: speed, memory, time by phase.

    python benchmarks/gpu_maniskill.py --model openvla_oft|pi05 [--num-envs N] [--chunks N]
        [--json PATH] [key=value ...]
    python benchmarks/gpu_maniskill.py --device cpu --size tiny --sim-backend cpu --num-envs 1

The second line only shows that it runs. See docs/benchmarks.md for what each figure means.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # torch looks at CUDA_VISIBLE_DEVICES, which --device sets
    from parts.gpu_report import Report
    from parts.maniskill_alone import Work
    from parts.phases import Clock

    from rlcore.contracts.protocols import Observation
    from rlcore.session.assembly import Assembly
    from rlcore.workers.local_group import LocalGroup

RECIPES = {"openvla_oft": "maniskill_ppo_openvlaoft", "pi05": "maniskill_ppo_openpi_pi05"}
SIZE_KEYS = {"openvla_oft": "actor.model.size", "pi05": "actor.model.openpi.size"}
STEPS = 80  # of an episode, as published
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SMOKE = "--device cpu --size tiny --sim-backend cpu --num-envs 1"


def words(options: argparse.Namespace, chunk: int) -> list[str]:
    """The recipe, on one device and in one process, as the command line of `rlcore train`."""
    steps = options.chunks * chunk if options.chunks else STEPS
    made = [
        f"experiment={RECIPES[options.model]}",
        "cluster.backend=local",
        "cluster.component_placement={env: 0, rollout: 0, actor: 0}",
        "rollout.pipeline_stage_num=1",
        "actor.model.precision=bf16",
        "actor.model.model_path=null",  # random weights: what is measured is time and memory
        "algorithm.update_epoch=1",
    ]
    if options.model == "openvla_oft":
        made.append("actor.model.unnorm_key=null")  # a fresh model has no data set
    if options.size == "tiny":
        made.append(f"{SIZE_KEYS[options.model]}=tiny")
    for side in ("train", "eval"):
        made += [
            f"env.{side}.stand_ins=true",
            f"env.{side}.sim_backend={options.sim_backend}",
            f"env.{side}.total_num_envs={options.num_envs}",
            f"env.{side}.max_episode_steps={steps}",
        ]
        if options.sim_backend == "cpu":
            made.append(f"env.{side}.num_processes=0")  # here, where phases are timed
    made.append(f"env.train.max_steps_per_rollout_epoch={steps}")
    return made


def measure(options: argparse.Namespace) -> Report:
    """Warm-up, measured rounds, one with its phases timed, then the components alone."""
    from parts.machine import Machine
    from parts.phases import Clock

    from rlcore.config.compose import compose
    from rlcore.session.assembly import assemble
    from rlcore.workers.local_group import LocalGroup

    asked = compose([*words(options, chunk=1), *options.overrides])
    chunk = asked.actor.model.num_action_chunks
    assembly = _assembled([*words(options, chunk), *options.overrides], assemble, compose)
    config, spec = assembly.config, assembly.env_specs["train"]
    machine = Machine.this(assembly.placement.inventory.nodes[0].cpus)
    clock = Clock()
    with LocalGroup(assembly.worker_specs) as group:
        _say("building the policy and the simulation")
        with clock.stage("built"):
            _start(group, options.device)
        # the simulator reads its variables when it is imported, and they are set by now
        from parts.gpu_report import Report
        from parts.maniskill_alone import Alone, policy_alone, simulation_alone

        with clock.stage("warm-up"):
            _round(group, assembly, 0)
        _say(f"{options.repeats} rollouts and updates")
        with clock.stage("measured"):
            rounds = [_round(group, assembly, n + 1) for n in range(options.repeats)]
        _say("one more, by phase")
        work, samples, seen = _timed_round(group, assembly, options.repeats + 1, clock)
        _say("components alone")
        policy = _worker(group, "actor").policy
        batches = [batch for batch in BATCHES if batch <= config.env.train.total_num_envs]
        decided = policy_alone(policy, seen, batches, config.runner.seed)
        group.release("train")
        steps = config.env.train.max_episode_steps
        simulated = simulation_alone(config.env.train, spec, steps // chunk, chunk, options.repeats)
        model = {
            "model": options.model,
            "size": options.size,
            "parameters": sum(p.numel() for p in policy.parameters()),
            "trained": sum(p.numel() for p in policy.parameters() if p.requires_grad),
            "precision": config.actor.model.precision,
            "micro-batch": config.actor.micro_batch_size,
        }
    return Report(
        machine=machine,
        accelerator=_accelerator(),
        command=sys.argv[1:],
        model=model,
        setting={
            "task": spec.tasks[0],
            "assets": spec.render_settings.get("assets", "none"),
            "simulation": config.env.train.sim_backend,
            "rows": config.env.train.total_num_envs,
            "chunks": steps // chunk,
            "actions": chunk,
            "pixels": spec.cameras[0].height,
        },
        rollouts=[rollout for rollout, _ in rounds],
        updates=[update for _, update in rounds],
        work=work,
        samples=samples,
        clock=clock,
        alone=Alone(simulated, decided),
    )


def _assembled(overrides: list[str], assemble: Any, compose: Any) -> Assembly:
    """One optimizer step an update: over all chunks, in whole micro-batches."""
    config = compose(overrides)
    model, train, micro = config.actor.model, config.env.train, config.actor.micro_batch_size
    chunks = train.total_num_envs * (train.max_episode_steps // model.num_action_chunks)
    batch = -(-chunks // micro) * micro
    made: Assembly = assemble(compose([*overrides, f"actor.global_batch_size={batch}"]))
    return made


def _start(group: LocalGroup, device: str) -> None:
    """The group as a run starts it, but for where random weights are drawn: billions of them on the
    host would take minutes and 30 GiB there."""
    import torch

    with torch.device("cuda" if device == "gpu" else "cpu"):
        _worker(group, "actor").start()  # what is started stays as it is
    group.start()


def _worker(group: LocalGroup, component: str) -> Any:
    return next(worker for role, worker in group._workers.items() if component in role)


def _round(group: LocalGroup, assembly: Assembly, update: int) -> tuple[float, float]:
    """Seconds of a rollout and of the update from it."""
    from parts.ours import training_order
    from parts.phases import synchronize

    from rlcore.session.gather import gather

    begin = time.perf_counter()
    gather(group, assembly, training_order(assembly, update))
    synchronize()
    gathered = time.perf_counter()
    group.update(update)
    synchronize()
    return gathered - begin, time.perf_counter() - gathered


def _timed_round(
    group: LocalGroup, assembly: Assembly, update: int, clock: Clock
) -> tuple[Work, int, Observation]:
    """A rollout and its update by phase; what was done, chunks trained on, and an observation."""
    import rlcore_env_maniskill.batched as batched
    import rlcore_env_maniskill.simulator as simulator
    import torch
    from mani_skill.envs.sapien_env import BaseEnv
    from parts.maniskill_alone import Work
    from parts.ours import training_order

    from rlcore.session.gather import gather

    worker = _worker(group, "actor")
    (env,) = _worker(group, "env")._envs["train"]
    policy, learner = worker.policy, worker.learner
    seen: list[Observation] = []

    def looked_at(observation: Observation) -> int:
        seen[:] = [observation]
        return len(observation["states"])

    def scenes(raw: BaseEnv, *_: Any) -> int:
        return int(raw.num_envs)

    watch = clock.watch
    with clock.watching(
        watch(env, "reset", "reset"),
        watch(env, "chunk_step", "rest of the env"),
        watch(BaseEnv, "step", "simulate", scenes),
        watch(batched, "capture", "render", scenes),
        watch(simulator, "capture", "render", scenes),
        watch(policy, "prepare", "prepare", looked_at),
        watch(policy, "act", "act", lambda inputs, keys, **_: len(keys)),
        watch(policy, "evaluate", "evaluate", lambda inputs, _: len(next(iter(inputs.values())))),
        watch(torch.Tensor, "backward", "backward"),
        watch(learner._optimizer, "step", "optimizer"),
    ):
        with clock.stage("rollout"), clock.phase("rest of the rollout"):
            gathered = gather(group, assembly, training_order(assembly, update))
        with clock.stage("update"), clock.phase("rest of the update"):
            metrics = group.update(update)
    work = Work(
        env_steps=gathered.env_steps,
        episodes=len(gathered.outcomes),
        decisions=clock.phases["act"].rows,
    )
    return work, int(metrics["train/actor/trained_samples"]), seen[0]


def _accelerator() -> str:
    import torch

    if not torch.cuda.is_available():
        return "no GPU: its figures say nothing about one"
    facts = torch.cuda.get_device_properties(0)
    return f"{facts.name}, {facts.total_memory / 2**30:.0f} GiB, CUDA {torch.version.cuda}"


def _say(what: str) -> None:
    print(f"{what} ...", file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("overrides", nargs="*", help="keys, as of rlcore train")
    parser.add_argument("--model", choices=tuple(RECIPES), default="openvla_oft")
    parser.add_argument("--size", choices=("published", "tiny"), default="published")
    parser.add_argument("--num-envs", type=int, default=64, help="rows of the simulation")
    parser.add_argument("--chunks", type=int, help=f"of an episode; else {STEPS} steps")
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument("--sim-backend", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument("--repeats", type=int, default=3, help="measured rollouts and updates")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    return parser.parse_args()


def main() -> None:
    """Measure, and print the table and the figures."""
    options = _arguments()
    os.environ["CUDA_VISIBLE_DEVICES"] = (
        os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] if options.device == "gpu" else ""
    )
    from rlcore.contracts.errors import UserError

    try:
        _check_device(options)
        report = measure(options)
    except UserError as error:
        sys.exit(f"error: {error}")
    print("\n".join(report.lines()))
    figures = report.as_json()
    print(json.dumps(figures))
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def _check_device(options: argparse.Namespace) -> None:
    """Before anything is built.

    Raises:
        PlacementError: a GPU is asked for where there is none.
    """
    import torch

    from rlcore.contracts.errors import PlacementError

    if "gpu" in (options.device, options.sim_backend) and not torch.cuda.is_available():
        raise PlacementError(
            f"device={options.device} and sim-backend={options.sim_backend} need an NVIDIA GPU, "
            "and torch finds none",
            hint=f"to see whether it runs: python benchmarks/gpu_maniskill.py {SMOKE}",
        )


if __name__ == "__main__":
    main()
