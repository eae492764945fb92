"""Convert between env and network: images, prompt, state and action tokens. No torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlcore.contracts.protocols import Demonstration, Inputs, Observation
from rlcore_prismatic import statistics
from rlcore_prismatic.actions import ActionTokenizer
from rlcore_prismatic.images import center_crop, resize
from rlcore_prismatic.prompt import PromptTokenizer
from rlcore_prismatic.resolved import Resolved
from rlcore_prismatic.scaling import Scaling, scaling
from rlcore_prismatic.settings import PrismaticModelConfig


class Processor:
    """Converts observations and actions, each row by itself. The statistics are the only state.

    Args:
        config, resolved: settings; they choose cameras, entries and bounds.
        prompts: the tokenizer.
        scaling: statistics; replaced by :meth:`fit`.
    """

    def __init__(
        self,
        config: PrismaticModelConfig,
        resolved: Resolved,
        prompts: PromptTokenizer,
        scaling: Scaling,
    ) -> None:
        self.config = config
        self.resolved = resolved
        self.prompts = prompts
        self.scaling = scaling
        self.actions = ActionTokenizer(resolved.size.action_bins)

    def inputs(self, observation: Observation) -> Inputs:
        """Convert an observation of B rows to the network's inputs, which are stored in this form:

        images uint8 `[B, I, h, w, 3]`; tokens int32, token_mask bool `[B, L]`; proprio float32
        `[B, S]` in [-1, 1] (S = 0 if the policy does not read it); elapsed float32 `[B]`.
        """
        tokens, token_mask = self.prompts(observation["task_descriptions"])
        return {
            "images": self._images(observation),
            "tokens": tokens,
            "token_mask": token_mask,
            "proprio": self._proprio(observation["states"]),
            "elapsed": observation["elapsed"].astype(np.float32),
        }

    def to_env_actions(self, indices: np.ndarray) -> np.ndarray:
        """Convert token indices `[B, C, M]` to the env's actions, float32 `[B, C, A]`."""
        return self.executed(self.actions.decode(indices))

    def executed(self, normalized: np.ndarray) -> np.ndarray:
        """Convert normalised actions `[B, C, M]` to the env's, float32 `[B, C, A]`."""
        values = self.scaling.action.unnormalize(normalized)
        return values[..., list(self.resolved.entries)].astype(np.float32)

    def to_indices(self, actions: np.ndarray) -> np.ndarray:
        """Convert the env's actions to token indices of the executed entries, int64 `[B, C, A]`."""
        entries = list(self.resolved.entries)
        full = np.zeros((*actions.shape[:-1], self.resolved.action_dim))
        full[..., entries] = actions
        return self.actions.encode(self.scaling.action.normalize(full))[..., entries]

    def fit(self, demonstrations: Sequence[Demonstration]) -> None:
        """Fit the statistics in use to the demonstrations.

        Entries that the env does not execute get the bounds [-1, 1]. Masks, and a checkpoint's
        statistics of other data sets, are preserved.
        """
        demonstrated = np.concatenate([demo.actions for demo in demonstrations])
        actions = statistics.of_range(*np.repeat([[-1.0], [1.0]], self.resolved.action_dim, axis=1))
        for name, values in statistics.fit(demonstrated).items():
            row = actions.setdefault(name, [0.0] * self.resolved.action_dim)
            for entry, value in zip(self.resolved.entries, values, strict=True):
                row[entry] = value
        states = np.concatenate([demo.states for demo in demonstrations])
        actions["mask"] = self.scaling.action.mask.tolist()
        proprio = statistics.fit(states)
        if self.scaling.proprio is not None:
            proprio["mask"] = self.scaling.proprio.mask.tolist()
        key = self.scaling.key
        others = {} if self.config.model_path is None else self.scaling.all
        all_statistics = {**others, key: {"action": actions, "proprio": proprio}}
        self.scaling = scaling(
            self.config, self.resolved, all_statistics, key, origin="demonstrations"
        )

    def _images(self, observation: Observation) -> np.ndarray:
        side = self.resolved.size.image_size
        cameras = list(observation["cameras"].values())[: self.resolved.num_images]
        images = [resize(frames, side) for frames in cameras]
        if self.config.center_crop:
            images = [center_crop(frames) for frames in images]
        return np.stack(images, axis=1)

    def _proprio(self, states: np.ndarray) -> np.ndarray:
        if self.scaling.proprio is None:
            return np.zeros((len(states), 0), dtype=np.float32)
        return np.clip(self.scaling.proprio.normalize(states), -1.0, 1.0).astype(np.float32)
