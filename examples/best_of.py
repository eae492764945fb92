"""An acting head that takes the best of several chunks, under a critic of inputs and actions.

An algorithm returns it from `acting_head`, see docs/plugin-algorithm.md. Before the first step that
trains the critic, `updates` calls `learning.networks["critic"].ready.fill_(1)`; the target network
copies buffers at the next step.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

from rlcore.contracts.protocols import Inputs, Policy, PolicyOutput
from rlcore.contracts.rng import RowKeys


class Critic(torch.nn.Module):
    """A critic: `critic(inputs, actions)` returns a score for each row, float32 `[B]`."""

    ready: torch.Tensor
    """Buffer `[1]`, 0 until the critic is trained. It travels to rollout workers like a weight."""


class BestOf:
    """Of `samples` chunks, the one that the critic scores highest."""

    def __init__(self, samples: int, critic: Critic) -> None:
        self._samples = samples
        self._critic = critic

    def act(
        self,
        policy: Policy,
        inputs: Inputs,
        keys: RowKeys,
        *,
        deterministic: bool,
    ) -> PolicyOutput:
        """Decide for the rows of `inputs`; see `rlcore.contracts.protocols.ActingHead`."""
        first = policy.act(inputs, keys, deterministic=deterministic)
        if not self._critic.ready:  # an untrained critic leaves the policy as it is
            return first
        outputs = [first]
        for number in range(1, self._samples):
            sample_keys = RowKeys(tuple((*key, "sample", number) for key in keys.keys))
            outputs.append(policy.act(inputs, sample_keys, deterministic=False))
        device = self._critic.ready.device
        tensors = {name: torch.as_tensor(array, device=device) for name, array in inputs.items()}
        scores = [
            self._critic(tensors, torch.as_tensor(output.actions, device=device))
            for output in outputs
        ]
        best = torch.stack(scores).argmax(0).cpu().numpy()
        actions = np.stack([output.actions for output in outputs])
        return dataclasses.replace(first, actions=actions[best, np.arange(len(best))])
