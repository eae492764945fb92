"""Measure batched ManiSkill with a model: rollouts and updates, memory, time by phase, components.

All in one process, so that nothing overlaps. The first round warms up. Where phases are not asked
for, the simulators are processes of their own, as in a run, and rounds are all that is measured.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from parts.gpu.device import device, name_of_device
from parts.gpu.maniskill_report import Report as Phases
from parts.gpu.row_process import Report
from parts.gpu.subject import LARGE, built_late
from parts.machine import Machine
from parts.maniskill_alone import Alone, Work, policy_alone, simulation_alone
from parts.ours import training_order
from parts.phases import Clock, synchronize
from rlcore.config.compose import compose
from rlcore.contracts.protocols import Observation
from rlcore.training.assembly import Assembly, assemble
from rlcore.training.gather import gather
from rlcore.workers.local_group import LocalGroup

RECIPES = {"openvla_oft": "maniskill_ppo_openvlaoft", "pi05": "maniskill_ppo_openpi_pi05"}
SIZE_KEYS = {"openvla_oft": "actor.model.size", "pi05": "actor.model.openpi.size"}
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class Settings:
    """What is run.

    Attributes:
        model: one of :data:`RECIPES`.
        size: "published" or "tiny".
        sim_backend: "gpu" or "cpu".
        num_envs: rows of the simulation.
        chunks: of an episode.
        repeats: measured rounds.
        by_phase: whether phases and components are measured too; then simulation is in this
            process.
    """

    model: str
    size: str
    sim_backend: str
    num_envs: int
    chunks: int
    repeats: int
    by_phase: bool


def words(settings: Settings, chunk: int) -> list[str]:
    """Return the recipe, on one device and in one process, as words of `rlcore train`."""
    steps = settings.chunks * chunk
    made = [
        f"experiment={RECIPES[settings.model]}",
        "cluster.backend=local",
        "cluster.component_placement={env: 0, rollout: 0, actor: 0}",
        "rollout.pipeline_stage_num=1",
        "actor.model.precision=bf16",
        "actor.model.model_path=null",  # random weights: what is measured is time and memory
        "algorithm.update_epoch=1",
    ]
    if settings.model == "openvla_oft":
        made.append("actor.model.unnorm_key=null")  # a fresh model has no data set
    if settings.size == "tiny":
        made.append(f"{SIZE_KEYS[settings.model]}=tiny")
    for side in ("train", "eval"):
        made += [
            f"env.{side}.stand_ins=true",
            f"env.{side}.sim_backend={settings.sim_backend}",
            f"env.{side}.total_num_envs={settings.num_envs}",
            f"env.{side}.max_episode_steps={steps}",
        ]
        if settings.sim_backend == "cpu" and settings.by_phase:
            made.append(f"env.{side}.num_processes=0")
    made.append(f"env.train.max_steps_per_rollout_epoch={steps}")
    return made


def measure(settings: Settings, report: Report) -> None:
    """Report a warm-up, measured rounds, one with its phases timed, then the components alone."""
    chunk = compose(words(settings, chunk=1)).actor.model.num_action_chunks
    assembly = _assembled(words(settings, chunk))
    config, spec = assembly.config, assembly.env_specs["train"]
    clock = Clock()
    with LocalGroup(assembly.worker_specs) as group:
        with clock.stage("built"):
            _start(group)
        policy = _worker(group, "actor").policy
        model = {
            "model": settings.model,
            "size": settings.size,
            "parameters": sum(p.numel() for p in policy.parameters()),
            "trained": sum(p.numel() for p in policy.parameters() if p.requires_grad),
            "precision": config.actor.model.precision,
            "micro-batch": config.actor.micro_batch_size,
        }
        report(settings=asdict(settings), model=model, built=_gib(clock, "built"))
        with clock.stage("warm-up"):
            _round(group, assembly, 0)
        rounds = []
        with clock.stage("measured"):
            for number in range(settings.repeats):
                rounds.append(_round(group, assembly, number + 1))
                report(rollout_seconds=rounds[-1][0], update_seconds=rounds[-1][1])
        report(measured=_gib(clock, "measured"))
        if not settings.by_phase:
            return
        work, samples, seen = _timed_round(group, assembly, settings.repeats + 1, clock)
        batches = [batch for batch in BATCHES if batch <= config.env.train.total_num_envs]
        decided = policy_alone(policy, seen, batches, config.runner.seed)
        group.release("train")
        simulated = simulation_alone(
            config.env.train, spec, settings.chunks, chunk, settings.repeats
        )
    found = Phases(
        machine=Machine.this(assembly.placement.inventory.nodes[0].cpus),
        accelerator=name_of_device(),
        model=model,
        setting={
            "task": spec.tasks[0],
            "assets": spec.render_settings.get("assets", "none"),
            "simulation": config.env.train.sim_backend,
            "rows": config.env.train.total_num_envs,
            "chunks": settings.chunks,
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
    report(**found.as_json())


def _gib(clock: Clock, stage: str) -> Mapping[str, float]:
    return asdict(clock.stages[stage])


def _assembled(overrides: list[str]) -> Assembly:
    """One optimizer step an update: over all chunks, in whole micro-batches."""
    config = compose(overrides)
    model, train, micro = config.actor.model, config.env.train, config.actor.micro_batch_size
    chunks = train.total_num_envs * (train.max_episode_steps // model.num_action_chunks)
    batch = -(-chunks // micro) * micro
    return assemble(compose([*overrides, f"actor.global_batch_size={batch}"]))


def _start(group: LocalGroup) -> None:
    """Start the group as a run does, but for where random weights are drawn: billions of them on
    the host would take minutes and 30 GiB there."""
    worker = _worker(group, "actor")
    make = worker.make
    worker.make = lambda model: built_late(lambda: make(model), device(), LARGE)
    worker.start()  # what is started stays as it is
    group.start()


def _worker(group: LocalGroup, component: str) -> Any:
    return next(worker for role, worker in group._workers.items() if component in role)


def _round(group: LocalGroup, assembly: Assembly, update: int) -> tuple[float, float]:
    """Seconds of a rollout and of the update from it."""
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
    import rlcore_env_maniskill.raw as raw_env
    from mani_skill.envs.sapien_env import BaseEnv

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
        watch(raw_env, "capture", "render", scenes),
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
