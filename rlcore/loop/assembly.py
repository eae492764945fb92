"""From a configuration to everything that is known before a worker starts."""

from __future__ import annotations

from dataclasses import dataclass

from rlcore.config.schema import EnvConfig, RunConfig
from rlcore.errors import PlacementError, PluginError
from rlcore.placement import Inventory, Plan, Seat, make_plan
from rlcore.plugins import Registry, load_plugins, load_target
from rlcore.specs import AlgorithmNeeds, ComponentSpec, EnvSpec, PolicySpec
from rlcore.workers.env_worker import EnvSide, EnvWorkerSettings
from rlcore.workers.group import GroupPlan
from rlcore.workers.policy_worker import PolicyWorkerSettings


@dataclass(frozen=True)
class Assembly:
    """The parts of a run, chosen and checked, none of them started.

    Attributes:
        config: the frozen configuration.
        sides: `{"train": EnvSide, "eval": EnvSide}`.
        env_specs: the same for :class:`EnvSpec`.
        policy_spec, needs: of the model and of the algorithm.
        placement: which process sits where.
        plan: the workers as they are to be started.
    """

    config: RunConfig
    sides: dict[str, EnvSide]
    env_specs: dict[str, EnvSpec]
    policy_spec: PolicySpec
    needs: AlgorithmNeeds
    placement: Plan
    plan: GroupPlan

    @property
    def device(self) -> str:
        """Where the policy runs, in words."""
        return "cuda" if self.placement.inventory.kind == "GPU" else "cpu"


def assemble(config: RunConfig, registry: Registry | None = None) -> Assembly:
    """Look up components, compute their specs and lay out the workers.

    Raises:
        UserError: a missing component, a wrong setting, a placement that can't be carried out.
    """
    registry = registry or load_plugins()
    model = registry.get("model", config.actor.model.model_type).spec
    algorithm = registry.get("algorithm", config.algorithm.name).spec
    sides, specs = {}, {}
    for name, env_config in (("train", config.env.train), ("eval", config.env.eval)):
        component = registry.get("env", env_config.env_type).spec
        sides[name] = EnvSide(component.target, env_config)
        specs[name] = _facts(component, env_config)
    policy_spec = load_target(_spec_of(model))(config.actor.model, specs["train"])
    needs = load_target(_spec_of(algorithm))(config.algorithm)
    placement = make_plan(config.cluster, Inventory.local(), registry)
    if not placement.fused:
        raise PlacementError(
            "rollout and actor must sit on the same ranks, process by process: this version plans "
            "separate and hybrid placements (--dry-run), but does not run them yet",
            hint="cluster.component_placement={env: all, rollout: all, actor: all}",
        )
    return Assembly(
        config=config,
        sides=sides,
        env_specs=specs,
        policy_spec=policy_spec,
        needs=needs,
        placement=placement,
        plan=GroupPlan(
            cluster=config.cluster,
            env=tuple(
                EnvWorkerSettings(
                    sides=sides,
                    rank=rank,
                    world_size=placement.world_size("env"),
                    stages=config.rollout.pipeline_stage_num,
                    num_processes=_cores(placement, seat),
                    policy_timeout=config.cluster.timeouts.policy,
                )
                for rank, seat in enumerate(placement.seats("env"))
            ),
            policy=tuple(
                PolicyWorkerSettings(
                    policy_target=model.target,
                    algorithm_target=algorithm.target,
                    actor=config.actor,
                    algorithm=config.algorithm,
                    env_spec=specs["train"],
                    seed=config.runner.seed,
                    threads=config.cluster.torch_threads or _cores(placement, seat),
                )
                for seat in placement.seats("actor")
            ),
            env_seats=placement.seats("env"),
            policy_seats=placement.seats("actor"),
        ),
    )


def _cores(placement: Plan, seat: Seat) -> int:
    """Cores of the ranks a process sits on. Env and policy take turns (or overlap in stages), so
    each may use them all; what Ray reserves is the share."""
    node = placement.inventory.nodes[seat.node]
    return max(1, node.cpus * len(seat.local_ranks) // placement.inventory.slots(seat.node))


def _facts(component: ComponentSpec, config: EnvConfig) -> EnvSpec:
    spec: EnvSpec = load_target(_spec_of(component))(config)
    return spec


def _spec_of(component: ComponentSpec) -> str:
    if component.spec is None:
        raise PluginError(
            f"component {component.name!r} names no spec function, so a run with it can't be planned",
            hint="give ComponentSpec(spec='module:function'); see docs/plugins.md",
        )
    return component.spec
