"""Initialise large weights lazily, tensor by tensor, to bit-identical values.

    with LazyInit() as lazy:
        policy = make()              # tensors have names, shapes and dtypes
    lazy.fill(block.parameters())    # these tensors have values

A rank of a sharded policy thus never needs memory for the whole policy. Inside the context, a
random initialisation of a large tensor is run, so that the generator advances; then the tensor's
memory is released, and the generator's previous state is recorded. A cast is recorded without being
run. Any other operation materialises the tensor. After the context, a tensor has no memory until it
is filled: reading or writing it crashes the process.

Works only on the host and with torch's default generator. Knows no policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

MIN_LAZY_BYTES = 2**20
"""Smallest size in bytes of a lazy tensor: a recorded generator state takes 5 KB."""
_DRAWS = (torch.ops.aten.normal_.default, torch.ops.aten.uniform_.default)
_CAST = torch.ops.aten._to_copy.default
_NOT_PLAIN = {torch.Tag.inplace_view, torch.Tag.nondeterministic_seeded}
"""Tags of in-place operations that can't be recorded: they change the shape, or draw numbers."""


@dataclass
class _Recipe:
    """How to compute the values of a storage.

    Attributes:
        storage: the storage; the reference prevents another one from reusing its address.
        size: size in bytes.
        steps: functions that compute the values, in this order.
        source: key of the storage that the values are cast from, if they are.
    """

    storage: torch.UntypedStorage
    size: int
    steps: list[Callable[[], object]]
    source: int | None = None


class LazyInit(TorchDispatchMode):
    """Context in which large tensors are initialised lazily; see the module.

    Args:
        min_bytes: smallest size in bytes of a lazy tensor.
    """

    def __init__(self, min_bytes: int = MIN_LAZY_BYTES) -> None:
        super().__init__()
        self._min_bytes = min_bytes
        self._recipes: dict[int, _Recipe] = {}

    def fill(self, tensors: Iterable[Tensor]) -> None:
        """Compute the values of those tensors that are not filled yet."""
        for tensor in tensors:
            self._materialise(_key(tensor))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        unary = len(tensors) == 1 and tensors[0] is args[0]
        mutable = func._schema.is_mutable
        if mutable:
            self._materialise_casts_of({_key(tensor) for tensor in tensors})
        draws = func in _DRAWS and kwargs.get("generator") is None
        if unary and draws and self._is_whole_storage(args[0]):
            return self._record_draw(func, args, kwargs)
        if unary and func is _CAST and self._is_large(args[0]) and _only_dtype(args[0], kwargs):
            return self._record_cast(args[0], kwargs["dtype"])
        if func.is_view:
            return self._view(func, args, kwargs)
        recordable = mutable and not _NOT_PLAIN.intersection(func.tags)
        if unary and recordable and _key(args[0]) in self._recipes:
            tensor = args[0].detach()
            recipe = self._recipes[_key(tensor)]
            recipe.steps.append(lambda: func(tensor, *args[1:], **kwargs))
            return args[0]
        self.fill(tensors)
        return func(*args, **kwargs)

    def _view(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a view of a tensor. Torch refuses a view of a part of released memory, such as the
        padding row of an embedding, so the memory is allocated meanwhile."""
        recipe = self._recipes.get(_key(args[0]))
        if recipe is None:
            return func(*args, **kwargs)
        recipe.storage.resize_(recipe.size)
        try:
            return func(*args, **kwargs)
        finally:
            recipe.storage.resize_(0)

    def _record_draw(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """Run a random initialisation, release the tensor's memory and record how to repeat it."""
        tensor: Tensor = args[0]
        key = _key(tensor)
        storage = tensor.untyped_storage()
        replaced = self._recipes.pop(key, None)
        if replaced is not None:  # the draw overwrites all values, so the earlier steps are dropped
            storage.resize_(replaced.size)
        size = storage.nbytes()
        alias = tensor.detach()
        state = torch.get_rng_state()

        def draw() -> None:
            current_state = torch.get_rng_state()
            torch.set_rng_state(state)
            func(alias, *args[1:], **kwargs)
            torch.set_rng_state(current_state)

        func(alias, *args[1:], **kwargs)
        storage.resize_(0)
        self._recipes[key] = _Recipe(storage, size, [draw])
        return tensor

    def _record_cast(self, tensor: Tensor, dtype: torch.dtype) -> Tensor:
        """Return a tensor of another dtype without memory, and record the cast."""
        result = torch.empty_like(tensor, dtype=dtype)
        source = tensor.detach()
        storage = result.untyped_storage()
        alias = result.detach()

        def cast() -> None:
            self._materialise(_key(source))
            alias.copy_(source)

        size = storage.nbytes()
        storage.resize_(0)
        self._recipes[_key(result)] = _Recipe(storage, size, [cast], source=_key(source))
        return result

    def _materialise_casts_of(self, changed: set[int]) -> None:
        """Compute the casts of storages that are about to change."""
        for key, recipe in list(self._recipes.items()):
            if recipe.source in changed:
                self._materialise(key)

    def _materialise(self, key: int) -> None:
        """Allocate a storage and compute its values, if that is still to be done."""
        recipe = self._recipes.pop(key, None)
        if recipe is None:
            return
        recipe.storage.resize_(recipe.size)
        for step in recipe.steps:
            step()

    def _is_large(self, tensor: Tensor) -> bool:
        """Check whether a tensor is on the host and large enough to be lazy."""
        return tensor.device.type == "cpu" and tensor.nbytes >= max(self._min_bytes, 1)

    def _is_whole_storage(self, tensor: Tensor) -> bool:
        """Check whether a tensor is large and covers its whole storage."""
        recipe = self._recipes.get(_key(tensor))
        storage = tensor.untyped_storage()
        size = storage.nbytes() if recipe is None else recipe.size
        covers = tensor.is_contiguous() and size == tensor.nbytes and storage.resizable()
        return covers and self._is_large(tensor)


def _key(tensor: Tensor) -> int:
    """Return the identity of a tensor's storage, shared by all views."""
    return tensor.untyped_storage()._cdata


def _only_dtype(tensor: Tensor, named: dict[str, Any]) -> bool:
    """Check whether the arguments of a copy change the dtype, but neither device nor pinning."""
    same_device = named.get("device") in (None, tensor.device)
    changed_dtype = named.get("dtype") not in (None, tensor.dtype)
    return changed_dtype and same_device and not named.get("pin_memory")
