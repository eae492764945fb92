"""RFT: the policy imitates its own successful episodes and demonstrations."""

from __future__ import annotations

from collections.abc import Iterator

from rlcore_off_policy.imitation import imitation_steps

from rlcore.contracts.learning import Step
from rlcore.contracts.protocols import Learning
from rlcore_algo_rft.settings import RFTConfig, needs


class RFT:
    """Rejection-sampling fine-tuning, or filtered behaviour cloning (Yuan et al. 2023, arXiv
    2308.01825, for language models): successful episodes are supervised data, as demonstrations
    are."""

    def __init__(self, config: RFTConfig) -> None:
        self._config = config
        self.needs = needs(config)

    def updates(self, learning: Learning) -> Iterator[Step]:
        """Yield `steps` supervised steps; none while there are neither successes nor
        demonstrations."""
        return imitation_steps(
            learning,
            steps=self._config.steps,
            batch_size=self._config.batch_size,
            demonstrations=self._config.demonstrations,
        )
