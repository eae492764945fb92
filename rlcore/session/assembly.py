"""Assemble everything that is known from a configuration before a worker starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from rlcore.checks.facts import NO_POLICY, Facts, planned
from rlcore.checks.further_sides import further_sides
from rlcore.checks.held_out import Learned
from rlcore.checks.run import announce, check
from rlcore.config.component_specs import algorithm_needs
from rlcore.config.schema import RunConfig
from rlcore.contracts.specs import AlgorithmNeeds, EnvSpec, OtherInterpreter, PolicySpec
from rlcore.placement import Plan, find_inventory
from rlcore.placement.grammar import Process
from rlcore.plugins.registry import Registry, load_plugins
from rlcore.run_folder.manifest import simulator_versions
from rlcore.workers.env_worker import EnvSide, EnvWorkerSettings
from rlcore.workers.policy_worker import PolicyWorkerSettings
from rlcore.workers.worker_specs import Member, WorkerSpecs


@dataclass(frozen=True)
class Assembly:
    """The parts of a run, chosen and checked, none of them started.

    Attributes:
        config: the frozen configuration.
        facts: what the checks have found.
        sides: `{"train": EnvSide, "eval": EnvSide}`, and further ones to evaluate on.
        env_specs: the same for :class:`EnvSpec`.
        worker_specs: the workers to start.
        learned: what earlier attempts of the run trained on.
        further: the configurations of the further sides, by name.
        played: the sides that are played; the others are only looked at for their specs.
        simulators: versions of what simulates each side that is played, by name
            (:meth:`simulated_by` fills them in).
    """

    config: RunConfig
    facts: Facts
    sides: dict[str, EnvSide]
    env_specs: dict[str, EnvSpec]
    worker_specs: WorkerSpecs
    learned: tuple[Learned, ...] = ()
    further: Mapping[str, RunConfig] = field(default_factory=dict)
    played: tuple[str, ...] = ("train", "eval")
    simulators: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def policy_spec(self) -> PolicySpec:
        """Of the model."""
        return self.facts.policy or NO_POLICY

    @property
    def needs(self) -> AlgorithmNeeds:
        """Of the algorithm."""
        return self.facts.needs or AlgorithmNeeds()

    @property
    def placement(self) -> Plan:
        """Which process sits where."""
        return self.facts.placement

    @property
    def played_specs(self) -> dict[str, EnvSpec]:
        """Specs of the sides that are played."""
        return {side: spec for side, spec in self.env_specs.items() if side in self.played}

    def evaluating(self, side: str) -> Assembly:
        """The assembly as an evaluation of a side sees it."""
        if side not in self.further:
            return self
        return replace(
            self,
            config=self.further[side],
            sides={**self.sides, "eval": self.sides[side]},
            env_specs={**self.env_specs, "eval": self.env_specs[side]},
            simulators={**self.simulators, "eval": self.simulators.get(side, {})},
        )

    def interpreters(self) -> list[OtherInterpreter]:
        """The other ones than rlcore's in which played envs simulate, as they are now.

        Raises:
            UserError: one can't be used.
        """
        return load_plugins().versions({side: self.sides[side].config for side in self.played})

    def simulated_by(self, interpreters: Sequence[OtherInterpreter]) -> Assembly:
        """The assembly with the versions of what simulates now.

        Args:
            interpreters: what :meth:`interpreters` found.
        """
        registry, elsewhere = load_plugins(), {one.side: one.packages for one in interpreters}
        versions = {
            side: simulator_versions(
                registry.get("env", self.sides[side].config.env_type).spec,
                self.env_specs[side],
                elsewhere.get(side),
            )
            for side in self.played
        }
        return replace(self, simulators=versions)

    @property
    def device(self) -> str:
        """Where the policy runs, in words."""
        return "cuda" if self.placement.allocations("actor")[0].gpus else "cpu"


def assemble(
    config: RunConfig,
    registry: Registry | None = None,
    further: Mapping[str, RunConfig] | None = None,
    *,
    collects: bool = False,
    trains: bool = False,
    facts: Facts | None = None,
) -> Assembly:
    """Look up the components' factories and lay out the workers. Once for a command: what it gives
    is handed on.

    Args:
        further: configurations whose `env.eval` the same workers will be asked to play too, by
            the name of their side.
        collects: whether demonstrations are collected whatever the configuration says.
        trains: whether `env.train` is played whatever the configuration says.
        facts: what the checks have found; None makes them, and warns of unusual settings.

    Raises:
        UserError: a missing component, a wrong setting, a placement that can't be carried out.
    """
    registry = registry or load_plugins()
    if facts is None:
        plan = planned(config, find_inventory(config.cluster), registry)
        facts = check(config, registry, plan, further, collects=collects)
        announce(facts, collects=collects)
    placement = facts.placement
    further = further or further_sides(config, registry)
    specs = {**facts.envs, **facts.further}
    envs = config.env.sides | {name: other.env.eval for name, other in further.items()}
    sides = {
        name: EnvSide(registry.get("env", env.env_type).spec.target, env, specs[name])
        for name, env in envs.items()
    }
    members = {"env": _env_workers(config, sides, placement)}
    if facts.policy is not None:
        members |= _policy_workers(config, facts.policy_env, placement, registry)
    return Assembly(
        config=config,
        facts=facts,
        sides=sides,
        env_specs=specs,
        worker_specs=WorkerSpecs(
            config.cluster, members, nodes=placement.inventory.nodes, routes=facts.routes
        ),
        further=further,
        played=(*(config.env.sides if trains else config.played), *further),
    )


def _env_workers(
    config: RunConfig, sides: dict[str, EnvSide], placement: Plan
) -> tuple[Member, ...]:
    learning = {rank for actor in placement.processes("actor") for rank in actor.resources}
    return tuple(
        Member(
            EnvWorkerSettings(
                sides=sides,
                rank=rank,
                world_size=placement.world_size("env"),
                stages=config.rollout.pipeline_stage_num,
                num_processes=placement.cores(placement.allocation(process)),
                restarts=config.cluster.simulator_restarts,
                policy_timeout=config.cluster.timeouts.policy,
                beside_actor=not learning.isdisjoint(process.resources),
            ),
            placement.allocation(process),
        )
        for rank, process in enumerate(placement.processes("env"))
    )


def _policy_workers(
    config: RunConfig, env_spec: EnvSpec, placement: Plan, registry: Registry
) -> dict[str, tuple[Member, ...]]:
    """By role: those that act and those that learn, or those that do both."""
    settings = replace(policy_settings(config, env_spec, registry), shards=placement.shards)

    def member(role: str, process: Process) -> Member:
        allocation = placement.allocation(process)
        threads = config.cluster.torch_threads or placement.cores(allocation)
        offload = placement.is_offloaded(role, process)
        return Member(replace(settings, threads=threads, offload=offload), allocation)

    return {
        role: tuple(member(role, process) for process in processes)
        for role, processes in placement.roles()
        if role != "env"
    }


def policy_settings(
    config: RunConfig, env_spec: EnvSpec, registry: Registry
) -> PolicyWorkerSettings:
    """Settings of a policy worker, whatever its process has.

    Args:
        env_spec: what the policy will see.
    """
    name = config.algorithm.name
    needs = algorithm_needs(config, registry) if name else AlgorithmNeeds()
    return PolicyWorkerSettings(
        policy_target=registry.get("model", config.actor.model.model_type).spec.target,
        algorithm_target=registry.get("algorithm", name).spec.target if name else "",
        acts=bool(needs.acting),
        keeps=needs.replay,
        actor=config.actor,
        algorithm=config.algorithm,
        env_spec=env_spec,
        seed=config.runner.seed,
        threads=1,
    )
