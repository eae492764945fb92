"""Define the trajectory, the data that a rollout passes to the learner, and its layout.

Legend: T chunks, N columns, C actions per chunk, A action entries, V values, M stored decisions.
A column is one episode or, with auto_reset, one env row over a fixed number of chunks.
Columns are in canonical order: sorted by the address of their first episode.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass
class Trajectory:
    """All decisions of a rollout and their results, as CPU tensors.

    Attributes:
        rewards: float32 `[T, N, C]`, 0 for invalid steps.
        valid, terminated, truncated: bool `[T, N, C]`; valid steps were simulated, and the end of
            an episode is flagged at its last step.
        actions: float32 `[T, N, C, A]` as sent to the env.
        logprobs: float32 `[T, N, C, A]` under the weights that acted.
        values: float32 `[T, N, V]` of the observation that each decision was made on.
        bootstrap_values: float32 `[T, N, V]`: for a chunk that ended by truncation, the values of
            the final observation; for the last chunk of a column whose episode did not end there,
            the values of the observation after it; 0 elsewhere.
        task, trial, replica, group: int64 `[T, N]`, address of the chunk's episode.
        episode: int64 `[T, N]`, running number of the episode within its column (0, 1, ...).
        policy_version: int64 `[T, N]`, number of updates done before the decision was made.
        success: bool `[T, N]`, whether the episode had succeeded by the end of the chunk.
        sample_index: int64 `[T, N]`, row of the decision in `inputs` and `replay`; -1 if there was
            no decision, or if another process holds its inputs. A decision at a final observation
            (`ReplayNeeds.final_decisions`) is in the cell after the last chunk of its episode, and
            none of its steps is valid.
        inputs, replay: `{name: [M, ...]}`, the data from which the policy re-evaluates decisions.
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
        """Return (T, N, C, A)."""
        chunks, columns, actions, entries = self.logprobs.shape
        return chunks, columns, actions, entries

    @property
    def ended(self) -> torch.Tensor:
        """Return bool `[T, N, C]`, true at the step that terminated or truncated an episode."""
        return self.terminated | self.truncated
