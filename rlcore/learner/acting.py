"""Let networks of an algorithm act together with the policy: as a policy that holds both.

    policy + networks + algorithm.acting -> ActingPolicy

It goes wherever a policy goes: it acts, its weights travel, it is saved and loaded. Who learns
takes the policy out again (:func:`without_acting_networks`). Knows no model and no algorithm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from rlcore.contracts.errors import CheckpointError
from rlcore.contracts.protocols import (
    Acting,
    Algorithm,
    Demonstration,
    Evaluation,
    HasPartInActing,
    Inputs,
    Observation,
    Policy,
    PolicyOutput,
)
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import EnvSpec
from rlcore.files.damaged_files import blaming
from rlcore.files.safetensors_header import read_headers
from rlcore.learner.networks import make_networks
from rlcore.numerics.batch_invariance import random_observation
from rlcore.run_folder.acting import NETWORKS, saved_with, write_algorithm


class ActingPolicy(nn.Module):
    """See :class:`rlcore.contracts.protocols.Policy`.

    Args:
        policy: decides, learns from demonstrations, is saved as its model saves it.
        networks: of the algorithm, those that act.
        acting: made from these.
        named: the algorithm.
        frozen: whether no update changes the policy.

    Attributes:
        learned: whether the networks differ from those that are drawn anew: else none are saved,
            and the folder is one of the policy alone.
    """

    def __init__(
        self,
        policy: Policy,
        networks: Mapping[str, nn.Module],
        acting: Acting,
        named: str,
        *,
        frozen: bool = False,
    ) -> None:
        super().__init__()
        assert isinstance(policy, nn.Module)  # as every policy is
        self.policy: Any = policy
        self.networks = nn.ModuleDict(dict(networks))
        self.spec = policy.spec
        self._acting, self._named, self._frozen = acting, named, frozen
        self.learned = False

    @torch.no_grad()
    def act(self, inputs: Inputs, keys: RowKeys, *, deterministic: bool = False) -> PolicyOutput:
        return self._acting.act(self.policy, inputs, keys, deterministic=deterministic)

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """Those of the policy, unless it is frozen, and the networks by name: what an update may
        change."""
        own = {name: list(network.parameters()) for name, network in self.networks.items()}
        return own if self._frozen else {**self.policy.parameter_groups(), **own}

    def save_pretrained(self, path: Path) -> None:
        self.policy.save_pretrained(path)
        if self.learned:
            write_algorithm(path, self._named)
            tensors = {name: one.contiguous() for name, one in self.networks.state_dict().items()}
            save_file(tensors, path / NETWORKS)

    def load_networks(self, folder: Path) -> None:
        """Take up what :meth:`save_pretrained` wrote; nothing where that was the policy alone.

        Raises:
            CheckpointError: the file is damaged, or of other networks.
        """
        if saved_with(folder) != self._named:  # the checks have refused or warned of another
            return
        file, held = folder / NETWORKS, self.networks.state_dict()
        stored = {name: list(header.shape) for name, header in read_headers(file).items()}
        if stored != {name: list(one.shape) for name, one in held.items()}:
            raise CheckpointError(
                f"{file} holds other networks than algorithm {self._named} has under "
                "these settings: names or shapes differ",
                hint="set the keys of algorithm as they were",
            )
        with blaming(file, SafetensorError):
            self.networks.load_state_dict(load_file(file))
        self.learned = True

    # -- the policy's own -------------------------------------------------------------------------

    def prepare(self, observation: Observation) -> Inputs:
        return cast(Policy, self.policy).prepare(observation)

    def evaluate(self, inputs: Mapping[str, Tensor], replay: Mapping[str, Tensor]) -> Evaluation:
        return cast(Policy, self.policy).evaluate(inputs, replay)

    def sft_batch(
        self, demonstration: Demonstration, frame_index: Sequence[int]
    ) -> tuple[Inputs, np.ndarray, np.ndarray]:
        return cast(Policy, self.policy).sft_batch(demonstration, frame_index)

    def sft_loss(
        self, inputs: Mapping[str, Tensor], actions: Tensor, mask: Tensor, keys: RowKeys
    ) -> Tensor:
        return cast(Policy, self.policy).sft_loss(inputs, actions, mask, keys)

    def fit_normalizer(self, demonstrations: Sequence[Demonstration]) -> None:
        self.policy.fit_normalizer(demonstrations)

    def set_progress(self, update: int) -> None:
        self.policy.set_progress(update)

    def set_checkpointing(self, enabled: bool) -> None:
        self.policy.set_checkpointing(enabled)

    def set_temperature(self, temperature: float | None) -> None:
        self.policy.set_temperature(temperature)

    def blocks(self) -> Sequence[nn.Module]:
        return cast(Policy, self.policy).blocks()


@contextmanager
def as_if_learned(policy: Policy) -> Iterator[None]:
    """Have networks of an algorithm saved with the policy, although they have not learned yet."""
    if not isinstance(policy, ActingPolicy):
        yield
        return
    before, policy.learned = policy.learned, True
    try:
        yield
    finally:
        policy.learned = before


def with_acting_networks(
    policy: Policy,
    algorithm: Algorithm,
    env: EnvSpec,
    *,
    named: str,
    seed: int,
    folder: str | Path | None,
) -> Policy:
    """The policy with the networks of an algorithm that act; itself where none do.

    Args:
        env: what it acts in.
        named: the algorithm.
        seed: of weights that are drawn.
        folder: the policy was loaded from; None: from none.

    Raises:
        AlgorithmError: the algorithm has not what it needs.
        CheckpointError: what was saved with the policy does not fit.
    """
    needs = algorithm.needs
    if not needs.acting:
        return policy
    owner = cast(HasPartInActing, algorithm)
    inputs = policy.prepare(random_observation(env, 1))
    made = make_networks(owner, policy.spec, inputs, named=named, seed=seed)
    networks = {
        one.name: (made.live if one.acts == "live" else made.lagged)[one.name]
        for one in needs.acting
    }
    acting = owner.acting(policy.spec, env, networks)
    whole = ActingPolicy(policy, networks, acting, named, frozen=needs.frozen)
    if folder is not None:
        whole.load_networks(Path(folder))
    return whole


def without_acting_networks(policy: Policy) -> Policy:
    """Without the part of an algorithm."""
    return cast(Policy, policy.policy) if isinstance(policy, ActingPolicy) else policy
