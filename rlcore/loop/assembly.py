"""From a configuration to everything that is known before a worker starts."""

from __future__ import annotations

from dataclasses import dataclass

from rlcore.config.schema import RunConfig
from rlcore.placement import Inventory, Plan, make_plan
from rlcore.plugins import Registry, load_plugins, load_target
from rlcore.specs import AlgorithmNeeds, ComponentSpec, EnvSpec, PolicySpec
from rlcore.workers.env_worker import EnvSide, EnvWorkerSettings
from rlcore.workers.group import GroupPlan, Seat
from rlcore.workers.policy_worker import PolicyWorkerSettings


@dataclass(frozen=True)
class Assembly:
    """The parts of a run, chosen and checked, none of them started.

    Attributes:
        config: the frozen configuration.
        sides: `{"train": EnvSide, "eval": EnvSide}`.
        env_specs: the same for :class:`EnvSpec`.
        policy_spec, needs: of the model and of the algorithm.
        plan: the workers and their seats.
    """

    config: RunConfig
    sides: dict[str, EnvSide]
    env_specs: dict[str, EnvSpec]
    policy_spec: PolicySpec
    needs: AlgorithmNeeds
    plan: GroupPlan

    def side(self, name: str) -> EnvSide:
        return self.sides[name]


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
    placement = make_plan(config.cluster, Inventory.local())
    policy_settings = PolicyWorkerSettings(
        policy_target=model.target,
        algorithm_target=algorithm.target,
        actor=config.actor,
        algorithm=config.algorithm,
        env_spec=specs["train"],
        seed=config.runner.seed,
        threads=1,
    )
    return Assembly(
        config=config,
        sides=sides,
        env_specs=specs,
        policy_spec=policy_spec,
        needs=needs,
        plan=_group_plan(config, sides, policy_settings, placement),
    )
