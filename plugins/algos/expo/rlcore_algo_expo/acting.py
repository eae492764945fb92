"""Act by EXPO: choose among samples of the policy and edits of them, by the target critics.

Legend: B rows, F features, C actions of a chunk, A entries of an action, S samples, M candidates
(samples and edits), E critics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from rlcore_off_policy.critic import ActionRange, Critic
from torch import Tensor

from rlcore.contracts.protocols import Inputs, Policy, PolicyOutput
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import EnvSpec
from rlcore_algo_expo.edit import EditActor
from rlcore_algo_expo.settings import ExpoConfig


@dataclass(frozen=True)
class Chosen:
    """The best candidates.

    Attributes:
        chunks: `[B, C, A]` in units of the range.
        index: int64 `[B]` in [0, M): candidate j < S is sample j, and candidate j >= S is an edit
            of sample j mod S.
        values: `[E, B]`, the values that the critics give them.
        edits: `[B]`, mean absolute entry of all edits among the candidates, in units of the range;
            0 without edits.
    """

    chunks: Tensor
    index: Tensor
    values: Tensor
    edits: Tensor


class Choice:
    """Chooses the best of the policy's samples and their edits.

    Args:
        env: gives the range of actions.
        critic: values the candidates.
        edit: makes edits.
        config: gives the numbers of samples and edits, and `caution`.
    """

    def __init__(self, env: EnvSpec, critic: Critic, edit: EditActor, config: ExpoConfig) -> None:
        self.range = ActionRange(env)
        self._critic = critic
        self._edit = edit
        self._config = config

    def act(
        self, policy: Policy, inputs: Inputs, keys: RowKeys, *, deterministic: bool
    ) -> PolicyOutput:
        """Return the best candidate of each row.

        See :class:`rlcore.contracts.protocols.ActingHead`. Until the edits are ready, the policy
        acts alone.
        """
        if not self._edit.ready:
            return policy.act(inputs, keys, deterministic=deterministic)
        outputs = samples(policy, inputs, keys, self._config.samples, deterministic=deterministic)
        device = self._edit.ready.device
        self.range.to(device)
        actions = torch.stack([torch.from_numpy(output.actions) for output in outputs])
        actions = actions.to(device)
        tensors = {name: torch.from_numpy(array) for name, array in inputs.items()}
        best = self.best(self._critic.features(tensors), self.range.units(actions), keys)
        drawn = best.index % len(outputs)
        row = torch.arange(len(keys), device=device)
        edited = (best.index >= len(outputs))[:, None, None]
        # an unedited sample is not converted to units and back, which would round and clamp it
        chunk = torch.where(edited, self.range.of_env(best.chunks), actions[drawn, row])
        return replace(_of_rows(outputs, drawn.cpu()), actions=chunk.cpu().numpy())

    def best(self, features: Tensor, drawn: Tensor, keys: RowKeys) -> Chosen:
        """Return the candidate with the highest score for each row; the first one among equals.

        The score is the mean over the critics minus `caution` times their standard deviation.

        Args:
            features: the critic's features `[B, F]`.
            drawn: samples `[S, B, C, A]` in units of the range.
            keys: random keys of the rows, for the noise of the edits.
        """
        candidates = list(drawn)
        sizes = []
        for number in range(self._config.edits):
            for sample, chunk in enumerate(drawn):
                noise = torch.from_numpy(keys.normal(f"edit/{number}/{sample}", self._edit.shape))
                edits, _ = self._edit(features, chunk, noise.to(chunk.device))
                candidates.append((chunk + edits).clamp(-1.0, 1.0))
                sizes.append(edits.abs().mean((1, 2)))
        values = torch.stack(
            [self._critic.values(features, candidate.flatten(1)) for candidate in candidates]
        )
        scores = values.mean(1) - self._config.caution * values.std(1, unbiased=False)
        index = scores.argmax(0)
        row = torch.arange(len(index), device=index.device)
        mean = torch.stack(sizes).mean(0) if sizes else torch.zeros_like(features[:, 0])
        return Chosen(torch.stack(candidates)[index, row], index, values[index, :, row].T, mean)


def samples(
    policy: Policy, inputs: Inputs, keys: RowKeys, count: int, *, deterministic: bool
) -> list[PolicyOutput]:
    """Return `count` decisions of the policy for the same inputs.

    The first uses the given keys, each other one uses keys derived from them. With `deterministic`,
    a policy that does not start from noise would repeat the same decision, so it explores in all
    but the first.
    """
    plain = deterministic and policy.spec.starts_from_noise
    outputs = [policy.act(inputs, keys, deterministic=deterministic)]
    for number in range(1, count):
        derived = RowKeys(tuple((*key, "sample", number) for key in keys.keys))
        outputs.append(policy.act(inputs, derived, deterministic=plain))
    return outputs


def _of_rows(outputs: Sequence[PolicyOutput], drawn: Tensor) -> PolicyOutput:
    """Return an output whose row b is row b of output `drawn[b]`; `drawn` is int64 `[B]`."""
    row = torch.arange(len(drawn))

    def pick(tensors: Sequence[Tensor]) -> Tensor:
        device = tensors[0].device
        return torch.stack(list(tensors))[drawn.to(device), row.to(device)]

    replay: Mapping[str, Tensor] = outputs[0].replay
    return PolicyOutput(
        np.stack([output.actions for output in outputs])[drawn.numpy(), row.numpy()],
        pick([output.logprobs for output in outputs]),
        pick([output.values for output in outputs]),
        {name: pick([output.replay[name] for output in outputs]) for name in replay},
    )
