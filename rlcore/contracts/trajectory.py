"""Define what a rollout passes to the learner, and its layout.

Legend: T chunks, N columns, C actions per chunk, A action entries, V values, M stored decisions.
A column is one episode (or, with auto_reset, one env row over a fixed number of chunks).
Columns stand in canonical order, sorted by episode address.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass
class Trajectory:
    """All decisions of a rollout and their results. CPU tensors.

    Attributes:
        rewards: float32 `[T, N, C]`, 0 where invalid.
        valid, terminated, truncated: bool `[T, N, C]`; an end is flagged at its own step.
        actions: float32 `[T, N, C, A]` as the env got them.
        logprobs: float32 `[T, N, C, A]` at the time of acting.
        values: float32 `[T, N, V]`.
        bootstrap_values: float32 `[T, N, V]`: in rows where a chunk ended by truncation V of the
            final observation; in the last row of a column that did not end, V of the observation
            after it; 0 elsewhere.
        task, trial, replica, group: int64 `[T, N]`, the episode's address per chunk.
        episode: int64 `[T, N]`, running number of the episode within its column (0, 1, ...).
        policy_version: int64 `[T, N]`, updates done when the decision was made.
        success: bool `[T, N]`, whether the episode of that chunk had succeeded by its end.
        sample_index: int64 `[T, N]`, row of `inputs` / `replay`, -1 where no decision was made.
        inputs, replay: `{name: [M, ...]}`, what the policy needs to evaluate a decision again.
    """

    rewards: torch.Tensor
    valid: torch.Tensor
    terminated: torch.Tensor
    truncated: torch.Tensor
    actions: torch.Tensor
    logprobs: torch.Tensor
    values: torch.Tensor
    bootstrap_values: torch.Tensor
    task: torch.Tensor
    trial: torch.Tensor
    replica: torch.Tensor
    group: torch.Tensor
    episode: torch.Tensor
    policy_version: torch.Tensor
    success: torch.Tensor
    sample_index: torch.Tensor
    inputs: dict[str, torch.Tensor]
    replay: dict[str, torch.Tensor]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(T, N, C, A)."""
        chunks, columns, actions, entries = self.logprobs.shape
        return chunks, columns, actions, entries

    @property
    def ended(self) -> torch.Tensor:
        """bool `[T, N, C]`: the step at which an episode ended for whatever reason."""
        return self.terminated | self.truncated
