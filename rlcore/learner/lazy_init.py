"""Initialise large weights later, tensor by tensor, to the same bits.

    with LazyInit() as lazy:
        policy = make()                  tensors have names, shapes and dtypes
    lazy.fill(block.parameters())   and now values

So no rank of a sharded policy needs all of it at once. Inside the context, a draw into a large
tensor is executed, so that the generator advances, and its memory released again; the generator's
state before it is recorded. A cast is only recorded. Any other operation materialises the tensor.
After leaving, a tensor must not be read or written before it is filled: there is no memory behind
it, and the process ends.

Knows nothing of policies. On the host only, with torch's own generator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

LEAST = 2**20
"""Bytes of a tensor that is worth it: a state of the generator has 5 KB."""
_DRAWS = (torch.ops.aten.normal_.default, torch.ops.aten.uniform_.default)
_CAST = torch.ops.aten._to_copy.default
_NOT_PLAIN = {torch.Tag.inplace_view, torch.Tag.nondeterministic_seeded}
"""Of operations in place, those that change more than numbers, and those that draw."""


@dataclass
class _Recipe:
    """How to compute the values of a storage.

    Attributes:
        storage: which one; held, so that no other takes its address.
        size: its bytes.
        steps: what makes its numbers, in this order.
        source: the storage that it is cast from.
    """

    storage: torch.UntypedStorage
    size: int
    steps: list[Callable[[], object]]
    source: int | None = None


class LazyInit(TorchDispatchMode):
    """Context that delays the values of large tensors; see the module.

    Args:
        least: bytes of a tensor from which on its values wait.
    """

    def __init__(self, least: int = LEAST) -> None:
        super().__init__()
        self._least = least
        self._recipes: dict[int, _Recipe] = {}

    def fill(self, tensors: Iterable[Tensor]) -> None:
        """Compute the values of tensors that are not filled yet."""
        for tensor in tensors:
            self._make(_key(tensor))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        alone = len(tensors) == 1 and tensors[0] is args[0]
        if alone and func in _DRAWS and kwargs.get("generator") is None and self._whole(args[0]):
            return self._drawn(func, args, kwargs)
        if alone and func is _CAST and self._large(args[0]) and _only_dtype(args[0], kwargs):
            return self._cast(args[0], kwargs["dtype"])
        if func.is_view:
            return self._view(func, args, kwargs)
        if func._schema.is_mutable:
            changed = {_key(tensor) for tensor in tensors}
            for key, recipe in list(self._recipes.items()):
                if recipe.source in changed:  # it is cast from what was there before
                    self._make(key)
        plain = func._schema.is_mutable and not _NOT_PLAIN.intersection(func.tags)
        if alone and plain and _key(args[0]) in self._recipes:
            held = args[0].detach()
            recipe = self._recipes[_key(held)]
            recipe.steps.append(lambda: func(held, *args[1:], **kwargs))
            return args[0]
        self.fill(tensors)
        return func(*args, **kwargs)

    def _view(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A view; one of a part, as of the row for padding, is refused unless there is memory."""
        recipe = self._recipes.get(_key(args[0]))
        if recipe is None:
            return func(*args, **kwargs)
        recipe.storage.resize_(recipe.size)
        try:
            return func(*args, **kwargs)
        finally:
            recipe.storage.resize_(0)

    def _drawn(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        tensor: Tensor = args[0]
        key, storage = _key(tensor), tensor.untyped_storage()
        for other, recipe in list(self._recipes.items()):
            if recipe.source == key:
                self._make(other)
        before = self._recipes.pop(key, None)
        if before is not None:  # what is drawn now takes the place of all that was there
            storage.resize_(before.size)
        size, held, state = storage.nbytes(), tensor.detach(), torch.get_rng_state()

        def draw() -> None:  # as it is made now
            now = torch.get_rng_state()
            torch.set_rng_state(state)
            func(held, *args[1:], **kwargs)
            torch.set_rng_state(now)

        func(held, *args[1:], **kwargs)
        storage.resize_(0)
        self._recipes[key] = _Recipe(storage, size, [draw])
        return tensor

    def _cast(self, tensor: Tensor, dtype: torch.dtype) -> Tensor:
        result, source = torch.empty_like(tensor, dtype=dtype), tensor.detach()
        storage, held = result.untyped_storage(), result.detach()

        def cast() -> None:
            self._make(_key(source))
            held.copy_(source)

        size = storage.nbytes()
        storage.resize_(0)
        self._recipes[_key(result)] = _Recipe(storage, size, [cast], source=_key(source))
        return result

    def _make(self, key: int) -> None:
        recipe = self._recipes.pop(key, None)
        if recipe is None:
            return
        recipe.storage.resize_(recipe.size)
        for step in recipe.steps:
            step()

    def _large(self, tensor: Tensor) -> bool:
        """On the host."""
        return tensor.device.type == "cpu" and tensor.nbytes >= max(self._least, 1)

    def _whole(self, tensor: Tensor) -> bool:
        """Whether it is large, and all that there is in its memory."""
        recipe, storage = self._recipes.get(_key(tensor)), tensor.untyped_storage()
        has = storage.nbytes() if recipe is None else recipe.size
        one = tensor.is_contiguous() and has == tensor.nbytes and storage.resizable()
        return one and self._large(tensor)


def _key(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _only_dtype(tensor: Tensor, named: dict[str, Any]) -> bool:
    """Whether a copy differs in its dtype, and in nothing else."""
    dtype = named.get("dtype")
    rest = {name: value for name, value in named.items() if name != "dtype" and value is not None}
    device = rest.pop("device", tensor.device)
    rest.pop("memory_format", None)
    rest = {name: value for name, value in rest.items() if value is not False}
    rest.pop("layout", None)
    return dtype not in (None, tensor.dtype) and device == tensor.device and not rest
