"""Convert between env and network: robot, statistics, prompt and images. No torch.

openpi's order:  robot's inputs -> Normalize -> resize, tokenize, pad
                 Unnormalize -> robot's outputs -> slice
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from rlcore_flow.normalize import Normalizer, Stats
from rlcore_weights.chunks import action_chunks

from rlcore.contracts.protocols import Demonstration, Inputs, Observation
from rlcore_model_openpi.images import resize_with_pad
from rlcore_model_openpi.resolved import Resolved
from rlcore_model_openpi.tokenizer import PromptTokenizer


class Processor:
    """Converts observations and actions, each row by itself. The statistics are the only state.

    Args:
        resolved: robot, sizes and number of cameras.
        tokenizer: tokenizer of the prompt.
        normalizer: statistics; replaced by :meth:`fit`.
    """

    def __init__(
        self, resolved: Resolved, tokenizer: PromptTokenizer, normalizer: Normalizer
    ) -> None:
        self.resolved = resolved
        self.tokenizer = tokenizer
        self.normalizer = normalizer

    def inputs(self, observation: Observation) -> Inputs:
        """Convert an observation of B rows to the network's inputs, which are stored in this form:

        images uint8 `[B, I, h, w, 3]`; tokens int32, token_mask bool `[B, L]`;
        state float32 `[B, D]`, normalised and padded; robot_state float32 `[B, S]`, before that;
        elapsed float32 `[B]`.
        """
        robot_state = self.resolved.data.to_model_state(observation["states"])
        state = None
        if self.resolved.uses_state:
            state = self.normalizer.normalize_state(robot_state)
        tokens, token_mask = self.tokenizer(
            observation["task_descriptions"], state if self.resolved.discrete_state else None
        )
        return {
            "images": self._images(observation),
            "tokens": tokens,
            "token_mask": token_mask,
            "state": self._pad(robot_state[:, :0].astype(np.float32) if state is None else state),
            "robot_state": robot_state.astype(np.float32),
            "elapsed": observation["elapsed"].astype(np.float32),
        }

    def to_env_actions(self, actions: np.ndarray, robot_state: np.ndarray) -> np.ndarray:
        """Convert the network's actions `[B, H, D]` to the env's, float32 `[B, H, A]`.

        Args:
            robot_state: from :meth:`inputs`; relative actions are added to it.
        """
        values = self.normalizer.unnormalize_actions(actions)
        env_actions = self.resolved.data.to_env_actions(
            values, robot_state, self.resolved.action_dim
        )
        return env_actions.astype(np.float32)

    def to_model_actions(self, actions: np.ndarray, robot_state: np.ndarray) -> np.ndarray:
        """Convert the env's actions `[B, H, A]` to the network's targets, float32 `[B, H, D]`."""
        values = self.resolved.data.to_model_actions(actions, robot_state)
        return self._pad(self.normalizer.normalize_actions(values))

    def fit(self, demonstrations: Sequence[Demonstration]) -> None:
        """Fit the statistics of states and actions over all steps of the demonstrations.

        Actions are those of each step's whole horizon, in the network's form. Relative actions are
        thus measured at every distance from the state they are relative to.
        """
        data = self.resolved.data
        horizon = self.resolved.size.action_horizon
        states = []
        actions = []
        for demonstration in demonstrations:
            state = data.to_model_state(demonstration.states)
            chunks, mask = action_chunks(demonstration.actions, range(len(state)), horizon)
            states.append(state)
            actions.append(data.to_model_actions(chunks, state)[mask])
        self.normalizer = replace(
            self.normalizer,
            state=Stats.fit(np.concatenate(states)),
            actions=Stats.fit(np.concatenate(actions)),
        )

    def _images(self, observation: Observation) -> np.ndarray:
        side = self.resolved.size.image_size
        cameras = list(observation["cameras"].values())[: self.resolved.num_images]
        return np.stack([resize_with_pad(frames, side, side) for frames in cameras], axis=1)

    def _pad(self, values: np.ndarray) -> np.ndarray:
        """Pad the last axis with zeros up to D, the network's number of entries."""
        widths = [(0, 0)] * (values.ndim - 1)
        return np.pad(values, [*widths, (0, self.resolved.size.action_dim - values.shape[-1])])
