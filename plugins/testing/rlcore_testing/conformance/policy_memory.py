"""Check that a policy needs the memory that its spec declares."""

from __future__ import annotations

from typing import Any
from weakref import finalize

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rlcore_testing.conformance.base import require, skip_unless
from rlcore_testing.conformance.policy_subject import ROWS, PolicySubject, as_tensors

ROUGHLY = 0.15  # relative error that an estimate of memory may have
HINT = "rlcore_weights.activations helps to count; 0 means that it is not known"


class MemoryChecks(PolicySubject):
    """Checks of the numbers that a placement plan uses, against measured sizes of tensors."""

    def test_activations_are_those_of_the_spec(self) -> None:
        """Bytes that a forward pass saves for backward, without parameters, each tensor once."""
        told = self.spec.activations.stored
        skip_unless(told > 0, "spec.activations.kept is 0: not known")
        kept = _kept(self.policy, self._sum_of_scores) / ROWS
        self._require_about("activations.kept", told, kept)

    def test_passing_activations_are_those_of_the_spec(self) -> None:
        """Peak bytes of a forward pass without gradients."""
        told = self.spec.activations.transient
        skip_unless(told > 0, "spec.activations.passing is 0: not known")
        with torch.no_grad(), _Held() as held:
            self._sum_of_scores()
        # keys and values that acting caches are counted apart, and a critic may be all there is
        most, cached = held.most / ROWS, self.spec.cache_size * self._number
        ends = (1 - 2 * ROUGHLY) * told, (1 + 2 * ROUGHLY) * (told + cached)
        self._require_about("activations.passing", told, most, ends)

    def test_recomputed_activations_are_those_of_the_spec(self) -> None:
        """Peak bytes of forward and backward with recomputation, without parameters' gradients."""
        told = self.spec.activations.recomputed
        skip_unless(told > 0 and self.spec.has_checkpointing, "nothing is recomputed")
        told = max(told, self.spec.activations.transient)
        policy = self.fresh()
        for parameter in policy.parameters():
            parameter.grad = torch.zeros_like(parameter)
        policy.set_checkpointing(True)
        output = self.acted(policy)
        with _Held() as held:
            self._sum_of_scores(policy, output).backward()
        ends = (1 - 2 * ROUGHLY) * told, (1 + 3 * ROUGHLY) * told
        self._require_about("activations.recomputed", told, held.most / ROWS, ends)

    def test_stored_decisions_are_those_of_the_spec(self) -> None:
        told = self.spec.sample_bytes
        skip_unless(told > 0, "spec.sample_bytes is 0: not known")
        tensors = [*as_tensors(self.inputs).values(), *self.acted().replay.values()]
        stored = sum(tensor.numel() * tensor.element_size() for tensor in tensors) / ROWS
        self._require_about("sample_bytes", told, stored)

    def _sum_of_scores(self, policy: Any = None, output: Any = None) -> Tensor:
        found = self.evaluated(output or self.acted(policy), policy)
        return found.logprobs.sum() + found.values.sum() + found.entropy.sum()

    @property
    def _number(self) -> int:
        """Size in bytes of the largest dtype among the parameters."""
        return max(parameter.element_size() for parameter in self.policy.parameters())

    def _require_about(
        self, name: str, told: int, measured: float, ends: tuple[float, float] | None = None
    ) -> None:
        """Require a measured size between `ends`, or else within :data:`ROUGHLY` of `told`."""
        least, most = ends or (told / (1 + ROUGHLY), told / (1 - ROUGHLY))
        require(
            least <= measured <= most,
            f"spec.{name} is {told} bytes a sample, measured are {measured:.0f}",
            hint=HINT,
        )


def _kept(policy: nn.Module, forward: Any) -> int:
    """Return the bytes that a forward pass saves for backward, without the parameters."""
    own = {one.untyped_storage()._cdata for one in policy.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            kept[storage._cdata] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        forward()
    return sum(storage.nbytes() for storage in kept.values())


class _Held(TorchDispatchMode):
    """A mode that counts the bytes of live tensors created inside it: the current and the peak."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.most = 0, 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = {_key(one) for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)}
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and _key(tensor) not in self._known | before:
                self._hold(tensor.untyped_storage())
        return result

    def _hold(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        self._known.add(key)
        self.now += size
        self.most = max(self.most, self.now)
        finalize(storage, self._release, key, size)

    def _release(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.now -= size


def _key(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata
