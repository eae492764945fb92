"""RFT: the policy imitates its own successful episodes and demonstrations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from rlcore_off_policy.exploration import Exploration
from rlcore_off_policy.imitation import imitation_steps
from torch import nn

from rlcore.contracts.learning import Step
from rlcore.contracts.protocols import Inputs, Learning, Policy, PolicyOutput
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import EnvSpec, PolicySpec
from rlcore_algo_rft.settings import RFTConfig, needs


class RFT:
    """Rejection-sampling fine-tuning, or filtered behaviour cloning (Yuan et al. 2023, arXiv
    2308.01825, for language models): successful episodes are supervised data, as demonstrations
    are."""

    def __init__(self, config: RFTConfig) -> None:
        self._config = config
        self.needs = needs(config)

    def networks(self, policy: PolicySpec, inputs: Inputs) -> dict[str, nn.Module]:
        explore = self._config.explore
        return {"explore": Exploration(explore, policy.action_dim)} if explore else {}

    def acting_head(
        self, policy: PolicySpec, env: EnvSpec, networks: Mapping[str, nn.Module]
    ) -> Explorer:
        return Explorer(cast(Exploration, networks["explore"]), env.tasks)

    def updates(self, learning: Learning) -> Iterator[Step]:
        """Yield `steps` supervised steps; none while there are neither successes nor
        demonstrations."""
        if self._config.explore:
            cast(Exploration, learning.networks["explore"]).learn(learning)
        return imitation_steps(
            learning,
            steps=self._config.steps,
            batch_size=self._config.batch_size,
            demonstrations=self._config.demonstrations,
        )


@dataclass(frozen=True)
class Explorer:
    """Adds the exploration of its episode to each decision of the policy.

    Args:
        exploration: draws the offset of an episode.
        tasks: names of the env's tasks.
    """

    exploration: Exploration
    tasks: Sequence[str]

    def act(
        self, policy: Policy, inputs: Inputs, keys: RowKeys, *, deterministic: bool
    ) -> PolicyOutput:
        output = policy.act(inputs, keys, deterministic=deterministic)
        return self.exploration.explored(output, keys, self.tasks)
