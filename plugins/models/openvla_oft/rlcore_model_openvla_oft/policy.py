"""Build OpenVLA-OFT as an rlcore policy from network.py and shared parts of rlcore_prismatic."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from rlcore_prismatic.network.actor import Writing
from rlcore_prismatic.network.heads import ValueHead
from rlcore_prismatic.network.model import PrismaticModel
from rlcore_prismatic.policy import TokenPolicy, make_policy
from torch import Tensor

from rlcore.contracts.errors import ConfigError
from rlcore.contracts.protocols import Evaluation, Inputs, PolicyOutput
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import EnvSpec
from rlcore_model_openvla_oft.network import ActionHead, ParallelActor, ProprioProjector
from rlcore_model_openvla_oft.settings import OpenVLAOFTConfig
from rlcore_model_openvla_oft.spec import policy_spec, resolve


def make(config: OpenVLAOFTConfig, *, env_spec: EnvSpec) -> TokenPolicy:
    """Build the policy; the factory that the plugin names.

    Raises:
        ConfigError: settings that don't fit each other or the env.
        CheckpointError: the checkpoint is missing, damaged, or has other shapes.
    """
    spec = policy_spec(config, env_spec)
    resolved = resolve(config, env_spec)

    def actor(network: PrismaticModel, head: ValueHead | None, writing: Writing) -> ParallelActor:
        size = resolved.size
        return ParallelActor(
            network,
            head,
            writing,
            official=config.implement_version == "official",
            proprio_projector=(
                ProprioProjector(size, config.proprio_dim) if config.use_proprio else None
            ),
            action_head=(
                ActionHead(size, resolved.action_dim) if config.use_l1_regression else None
            ),
        )

    kind = RegressionPolicy if config.use_l1_regression else TokenPolicy
    return make_policy(config, spec, resolved, env_spec, actor, kind)


class RegressionPolicy(TokenPolicy):
    """A policy that acts with the L1 head. Without log-probs it can be evaluated, not trained."""

    actor: ParallelActor

    @torch.no_grad()
    def act(self, inputs: Inputs, keys: RowKeys, *, deterministic: bool = False) -> PolicyOutput:
        """Compute actions for B rows. The keys are not used, as nothing is random.

        Raises:
            ConfigError: `deterministic` is false.
        """
        if not deterministic:
            raise self._refusal()
        tensors = {name: torch.from_numpy(array) for name, array in inputs.items()}
        normalized, values = self.actor.regress(self.actor_inputs(tensors))
        actions = self.processor.executed(normalized.double().cpu().numpy())
        return PolicyOutput(
            actions=actions,
            logprobs=torch.zeros(actions.shape, device=normalized.device),
            values=values,
            replay={"normalized_actions": normalized},
        )

    def evaluate(self, inputs: Mapping[str, Tensor], replay: Mapping[str, Tensor]) -> Evaluation:
        """Raise ConfigError: the actions have no log-probs."""
        raise self._refusal()

    def _refusal(self) -> ConfigError:
        return ConfigError(
            "actor.model.use_l1_regression=true gives actions without log-probs",
            hint="set runner.only_eval=true with rollout.eval_deterministic=true, or "
            "actor.model.use_l1_regression=false",
        )
