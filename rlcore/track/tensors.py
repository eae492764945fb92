"""Nested state as a flat list of named tensors and a tree of JSON, and back. No pickle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

TENSOR, TUPLE, INT_KEYS = "__tensor__", "__tuple__", "__int_keys__"


def flatten_tensors(tree: Any) -> tuple[dict[str, torch.Tensor], Any]:
    """Split nested state into tensors by path (`"state/0/exp_avg"`) and a JSON tree without them.

    In the tree a tensor stands as `{"__tensor__": path}`; tuples and integer keys, which JSON
    lacks, are marked in the same way, so that :func:`unflatten_tensors` gives back exactly what
    went in.
    """
    tensors: dict[str, torch.Tensor] = {}
    return tensors, _flatten(tree, "", tensors)


def _flatten(node: Any, path: str, tensors: dict[str, torch.Tensor]) -> Any:
    import torch

    if isinstance(node, torch.Tensor):
        if path in tensors:
            raise TypeError(f"two tensors of the state would both be called {path!r}")
        tensors[path] = node.detach().cpu().contiguous()
        return {TENSOR: path}
    if isinstance(node, Mapping):
        plain = {
            str(key): _flatten(value, _join(path, key), tensors) for key, value in node.items()
        }
        if all(isinstance(key, str) for key in node):
            return plain
        if all(type(key) is int for key in node):
            return {INT_KEYS: plain}
        raise TypeError(f"keys of the state at {path!r} must be all strings or all integers")
    if isinstance(node, (list, tuple)):
        items = [_flatten(item, _join(path, i), tensors) for i, item in enumerate(node)]
        return {TUPLE: items} if isinstance(node, tuple) else items
    if node is None or isinstance(node, (bool, int, float, str)):
        return node
    raise TypeError(f"the state at {path!r} is a {type(node).__name__}, neither tensor nor JSON")


def _join(path: str, key: object) -> str:
    return f"{path}/{key}" if path else str(key)


def tensor_names(tree: Any) -> set[str]:
    """Names of the tensors a tree of JSON asks for; ValueError where its marks make no sense."""
    if isinstance(tree, list):
        return set().union(*(tensor_names(value) for value in tree))
    if not isinstance(tree, dict):
        return set()
    if tree.keys() == {TENSOR}:
        if not isinstance(tree[TENSOR], str):
            raise ValueError(f"a tensor's name must be a string, got {tree[TENSOR]!r}")
        return {tree[TENSOR]}
    if tree.keys() == {TUPLE} and not isinstance(tree[TUPLE], list):
        raise ValueError(f"a tuple must be a list, got {tree[TUPLE]!r}")
    if tree.keys() == {INT_KEYS}:
        tree = {int(key): value for key, value in tree[INT_KEYS].items()}
    return set().union(*(tensor_names(value) for value in tree.values()))


def unflatten_tensors(tensors: Mapping[str, torch.Tensor], tree: Any) -> Any:
    """Inverse of :func:`flatten_tensors`. Raises KeyError where a tensor is missing."""
    if isinstance(tree, list):
        return [unflatten_tensors(tensors, value) for value in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.keys() == {TENSOR}:
        return tensors[tree[TENSOR]]
    if tree.keys() == {TUPLE}:
        return tuple(unflatten_tensors(tensors, value) for value in tree[TUPLE])
    if tree.keys() == {INT_KEYS}:
        return {int(k): unflatten_tensors(tensors, value) for k, value in tree[INT_KEYS].items()}
    return {key: unflatten_tensors(tensors, value) for key, value in tree.items()}
