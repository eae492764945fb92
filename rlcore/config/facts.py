"""What is known of a run before it starts: specs of the components and numbers of workers.

Light: the specs come from the components' spec functions, which load no simulator and no tensor
library.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlcore.config.schema import EnvConfig, RunConfig
from rlcore.config.sentences import told
from rlcore.config.tasks import checked_spec, narrowed
from rlcore.env_facts import EnvFacts, read_env_facts
from rlcore.errors import ConfigError, PluginError, UserError
from rlcore.placement import COMPONENTS, Inventory, Plan, make_plan
from rlcore.plugins import Registry, load_target
from rlcore.specs import AlgorithmNeeds, EnvSpec, Kind, PolicySpec


@dataclass(frozen=True)
class Facts:
    """What is known of a run before it starts.

    Attributes:
        config: the configuration.
        envs: `{"train": EnvSpec, "eval": EnvSpec}`.
        policy, needs: of the model and the algorithm; None where none is chosen (collecting
            demonstrations needs no model), and `needs` where nothing is trained (`only_eval`).
        placement: which process sits where.
        policy_env: what the policy is told of its env: that of training, with the sentences of all
            it is to act in.
        trained_in: the env of the checkpoint that the policy starts from; None where there is
            none, or it does not say.
    """

    config: RunConfig
    envs: Mapping[str, EnvSpec]
    policy: PolicySpec | None
    needs: AlgorithmNeeds | None
    placement: Plan
    policy_env: EnvSpec
    trained_in: EnvFacts | None = None

    @property
    def workers(self) -> dict[str, int]:
        """Number of processes of each component."""
        return {name: self.placement.world_size(name) for name in COMPONENTS}

    @property
    def rows_per_forward(self) -> int:
        """Rows that a rollout process decides at once, at most: those of a stage of an env worker,
        cut into forwards of `rollout.forward_batch`."""
        config = self.config
        envs = max(env.total_num_envs for _, env, _ in self.sides)
        rows = -(-envs // (self.workers["env"] * config.rollout.pipeline_stage_num))
        return min(rows, config.rollout.forward_batch or rows)

    @property
    def sides(self) -> list[tuple[str, EnvConfig, EnvSpec]]:
        """`(path, settings, spec)` of both envs."""
        env = self.config.env
        pairs = (("env.train", env.train, "train"), ("env.eval", env.eval, "eval"))
        return [(path, config, self.envs[side]) for path, config, side in pairs]


def gather_facts(
    config: RunConfig,
    registry: Registry,
    plan: Plan | None = None,
    further: Iterable[EnvSpec] = (),
) -> Facts:
    """Specs of the chosen components and numbers of workers; starts nothing.

    Args:
        further: envs beside both of the configuration that the policy is to act in.
    """
    envs = {
        side: env_spec(registry, f"env.{side}", settings)
        for side, settings in (("train", config.env.train), ("eval", config.env.eval))
    }
    model = config.actor.model
    said = (sentence for env in (*envs.values(), *further) for sentence in env.said)
    policy_env = replace(envs["train"], sentences=tuple(dict.fromkeys(said)))
    plan = plan or make_plan(config.cluster, Inventory.local())
    trains = bool(config.algorithm.name) and not config.runner.only_eval
    return Facts(
        config=config,
        envs=envs,
        policy=_spec(registry, "model", "actor.model", model.model_type, model, policy_env)
        if model.model_type
        else None,
        needs=algorithm_needs(config, registry) if trains else None,
        placement=plan,
        policy_env=policy_env,
        trained_in=read_env_facts(Path(model.model_path)) if model.model_path else None,
    )


def env_spec(registry: Registry, path: str, config: EnvConfig) -> EnvSpec:
    """What an env offers a run under its settings: the tasks it is asked for, under the sentences
    that the policy is to be told.

    Raises:
        UserError: settings that have no meaning, a task that it does not have, a broken plugin.
    """
    found = checked_spec(_spec(registry, "env", path, config.env_type, config), path)
    return told(narrowed(found, config.tasks, path), config.sentences, path)


def algorithm_needs(config: RunConfig, registry: Registry) -> AlgorithmNeeds:
    """What the chosen algorithm asks for.

    Raises:
        UserError: settings of it that have no meaning.
    """
    algorithm = config.algorithm
    found = _spec(registry, "algorithm", "algorithm", algorithm.name, algorithm)
    if not isinstance(found, AlgorithmNeeds):
        raise PluginError(
            f"algorithm: the spec function of {algorithm.name} must give AlgorithmNeeds, "
            f"got a {type(found).__name__}"
        )
    return found


def _spec(registry: Registry, kind: Kind, section: str, name: str, *arguments: Any) -> Any:
    """What a component's spec function says of its settings. A plugin knows its own keys, but
    not which section they stand in: that is said here."""
    component = registry.get(kind, name)
    if component.spec.spec is None:
        raise PluginError(
            f"{kind} {name!r} of {component.distribution} names no spec function, so nothing can "
            "be checked before it starts"
        )
    try:
        return load_target(component.spec.spec)(*arguments)
    except ConfigError as error:
        if section in error.message:
            raise
        raise ConfigError(f"{section}: {error.message}", hint=error.hint) from None
    except UserError:
        raise
    except Exception as error:  # a plugin may fail in any way
        at = error.__traceback__
        own = at.tb_next if at is not None and at.tb_next is not None else at  # without our frame
        text = "".join(traceback.format_exception(type(error), error, own)).rstrip()
        raise PluginError(
            f"{section}: the spec function of {kind} {name!r} ({component.distribution} "
            f"{component.version}) failed:\n{text}",
            hint="rlcore plugins; RLCORE_BLOCK_PLUGINS=NAME leaves a plugin out",
        ) from error
