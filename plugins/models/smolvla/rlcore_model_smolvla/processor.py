"""Convert between env and network: statistics and prompt. No torch.

Order:  Normalize -> pad      Unnormalize -> slice

Frames are kept as the env renders them; the network resizes them (network.prepare_images), because
they are mostly smaller than its images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from rlcore_flow.normalize import Normalizer, Stats
from rlcore_weights.chunks import action_chunks

from rlcore.contracts.protocols import Demonstration, Inputs, Observation
from rlcore_model_smolvla.resolved import Resolved
from rlcore_model_smolvla.tokenizer import PromptTokenizer


class Processor:
    """Converts observations and actions, each row by itself. The statistics are the only state.

    Args:
        resolved: sizes and cameras.
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

        image_0, image_1, ... uint8 `[B, h, w, 3]`, one for each camera; tokens int32, token_mask
        bool `[B, L]`; state float32 `[B, entries of the network]`, normalised and padded;
        robot_state float32 `[B, S]`, before that; elapsed float32 `[B]`.
        """
        tokens, token_mask = self.tokenizer(observation["task_descriptions"])
        states = observation["states"].astype(np.float32)
        frames = list(observation["cameras"].values())[: len(self.resolved.cameras)]
        size = self.resolved.size
        return {
            **{image_name(number): images for number, images in enumerate(frames)},
            "tokens": tokens,
            "token_mask": token_mask,
            "state": _pad(self.normalizer.normalize_state(states), size.state_dim),
            "robot_state": states,
            "elapsed": observation["elapsed"].astype(np.float32),
        }

    def to_env_actions(self, actions: np.ndarray, robot_state: np.ndarray) -> np.ndarray:
        """Convert the network's actions `[B, H, D]` to the env's, float32 `[B, H, A]`.

        Args:
            robot_state: not used: actions are not relative to the state.
        """
        return self.normalizer.unnormalize_actions(actions)[..., : self.resolved.action_dim]

    def to_model_actions(self, actions: np.ndarray, robot_state: np.ndarray) -> np.ndarray:
        """Convert the env's actions `[B, H, A]` to the network's targets, float32 `[B, H, D]`."""
        return _pad(self.normalizer.normalize_actions(actions), self.resolved.size.action_dim)

    def fit(self, demonstrations: Sequence[Demonstration]) -> None:
        """Fit the statistics of states and actions over all steps of the demonstrations.

        Actions are those of each step's whole horizon, as the network sees them.
        """
        horizon = self.resolved.size.action_horizon
        actions = []
        for demonstration in demonstrations:
            steps = range(len(demonstration.states))
            chunks, mask = action_chunks(demonstration.actions, steps, horizon)
            actions.append(chunks[mask])
        states = np.concatenate([demonstration.states for demonstration in demonstrations])
        self.normalizer = replace(
            self.normalizer,
            state=Stats.fit(states).rounded(),
            actions=Stats.fit(np.concatenate(actions)).rounded(),
        )


def image_name(camera: int) -> str:
    """Return the name of a camera's frames among the inputs."""
    return f"image_{camera}"


def _pad(values: np.ndarray, entries: int) -> np.ndarray:
    """Pad the last axis with zeros up to `entries`."""
    widths = [(0, 0)] * (values.ndim - 1)
    return np.pad(values, [*widths, (0, entries - values.shape[-1])])
