"""The run's policy in this process, for whoever plays without rlcore's workers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from rlcore.contracts.protocols import Observation, Policy
from rlcore.contracts.rng import RowKeys, generator
from rlcore.contracts.specs import Episode
from rlcore.plugins.import_target import load_target
from rlcore.training.assembly import Assembly
from rlcore.workers.policy_worker import PolicyWorkerSettings


class Actor:
    """The policy of a run: same weights, same exploration as in its rollouts."""

    def __init__(self, assembly: Assembly) -> None:
        settings = assembly.worker_specs.members_of("actor")[0].settings
        assert isinstance(settings, PolicyWorkerSettings)
        self._seed = settings.seed
        self._camera = settings.env_spec.cameras[0].name
        self.chunk = assembly.policy_spec.num_action_chunks
        self.state_dim = settings.env_spec.state_dim
        self.sentence = settings.env_spec.instructions[0]
        torch.manual_seed(int(generator(settings.seed, "weights").integers(2**31)))
        self._policy: Policy = load_target(settings.policy_target)(
            settings.actor.model, env_spec=settings.env_spec
        )

    def observation(
        self, frames: np.ndarray, states: np.ndarray, elapsed: np.ndarray, sentences: list[str]
    ) -> Observation:
        """What the policy sees of B rows: frames uint8 `[B, H, W, 3]`, states `[B, S]`."""
        return {
            "cameras": {self._camera: frames},
            "states": states.astype(np.float32),
            "task_descriptions": sentences,
            "elapsed": elapsed.astype(np.float32),
        }

    def act(self, observation: Observation, episodes: Sequence[Episode], turn: int) -> np.ndarray:
        """Actions float32 `[B, C, A]`, with exploration noise keyed as in a rollout."""
        keys = RowKeys(tuple((self._seed, "train", 0, *episode[:3], turn) for episode in episodes))
        return self._policy.act(self._policy.prepare(observation), keys).actions
