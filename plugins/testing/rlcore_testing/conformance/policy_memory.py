"""Check that a policy needs the memory that its spec declares, which a placement plan uses."""

from __future__ import annotations

from typing import Any
from weakref import finalize

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rlcore_testing.conformance.base import skip_unless
from rlcore_testing.conformance.policy_subject import ROWS, PolicySubject, as_tensors

ROUGHLY = 0.15  # relative error that an estimate of memory may have


class MemoryChecks(PolicySubject):
    """Checks of the numbers that a placement plan uses, against measured sizes of tensors."""

    def test_activations_are_those_of_the_spec(self) -> None:
        """Bytes that a forward pass saves for backward, without parameters, each tensor once."""
        declared = self._declared("activations.stored", self.spec.activations.stored)
        own = {_key(parameter) for parameter in self.policy.parameters()}
        kept: dict[int, torch.UntypedStorage] = {}

        def pack(tensor: Tensor) -> Tensor:
            if _key(tensor) not in own:
                kept[_key(tensor)] = tensor.untyped_storage()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            self._sum_of_scores()
        total = sum(storage.nbytes() for storage in kept.values())
        _require_about("activations.stored", declared, total / ROWS)

    def test_passing_activations_are_those_of_the_spec(self) -> None:
        """Peak bytes of a forward pass without gradients."""
        declared = self._declared("activations.transient", self.spec.activations.transient)
        with torch.no_grad(), _LiveBytes() as live:
            self._sum_of_scores()
        # keys and values that acting caches are counted apart, and a critic may be all there is
        size = max(parameter.element_size() for parameter in self.policy.parameters())
        most = (1 + 2 * ROUGHLY) * (declared + self.spec.cache_size * size)
        bounds = (1 - 2 * ROUGHLY) * declared, most
        _require_about("activations.transient", declared, live.peak / ROWS, bounds)

    def test_recomputed_activations_are_those_of_the_spec(self) -> None:
        """Peak bytes of forward and backward with recomputation, without parameters' gradients."""
        skip_unless(self.spec.has_checkpointing, "nothing is recomputed")
        declared = self._declared("activations.recomputed", self.spec.activations.recomputed)
        declared = max(declared, self.spec.activations.transient)
        policy = self.fresh()
        for parameter in policy.parameters():
            parameter.grad = torch.zeros_like(parameter)
        policy.set_checkpointing(True)
        output = self.acted(policy)
        with _LiveBytes() as live:
            self._sum_of_scores(policy, output).backward()
        bounds = (1 - 2 * ROUGHLY) * declared, (1 + 3 * ROUGHLY) * declared
        _require_about("activations.recomputed", declared, live.peak / ROWS, bounds)

    def test_stored_decisions_are_those_of_the_spec(self) -> None:
        declared = self._declared("sample_bytes", self.spec.sample_bytes)
        tensors = [*as_tensors(self.inputs).values(), *self.acted().replay.values()]
        _require_about("sample_bytes", declared, sum(tensor.nbytes for tensor in tensors) / ROWS)

    def _declared(self, name: str, size: int) -> int:
        skip_unless(size > 0, f"spec.{name} is 0: not known")
        return size

    def _sum_of_scores(self, policy: Any = None, output: Any = None) -> Tensor:
        evaluation = self.evaluated(output or self.acted(policy), policy)
        return evaluation.logprobs.sum() + evaluation.values.sum() + evaluation.entropy.sum()


def _require_about(
    name: str, declared: int, measured: float, bounds: tuple[float, float] | None = None
) -> None:
    """Require a measured size between `bounds`, or else within :data:`ROUGHLY` of `declared`."""
    least, most = bounds or (declared / (1 + ROUGHLY), declared / (1 - ROUGHLY))
    assert least <= measured <= most, (
        f"spec.{name} is {declared} bytes a sample, measured are {measured:.0f}"
        "\n  hint: rlcore_weights.activations helps to count; 0 means that it is not known"
    )


class _LiveBytes(TorchDispatchMode):
    """A mode that counts the bytes of live tensors created inside it: the current and the peak."""

    def __init__(self) -> None:
        super().__init__()
        self.current = 0
        self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        arguments = {_key(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and _key(tensor) not in self._known | arguments:
                self._hold(tensor.untyped_storage())
        return result

    def _hold(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        size = storage.nbytes()
        self._known.add(key)
        self.current += size
        self.peak = max(self.peak, self.current)
        finalize(storage, self._release, key, size)

    def _release(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.current -= size


def _key(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata
