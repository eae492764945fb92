"""Rewrite a saved policy for OpenVLA-OFT's own loader, in `rlcore export`.

The network, its settings and statistics are in that form already. The loader expects the other
parts in files of torch.save. It expects FiLM's towers with adapters, because it adds an adapter to
each of their linear maps before it loads them strictly.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rlcore_weights.tensors import WeightsFile, write_pickled
from torch import Tensor

from rlcore_prismatic.layout import FILM
from rlcore_prismatic.stored import COMPONENT_SUFFIX

_RANK = 32  # default rank of the loader's adapters


def to_original(folder: Path) -> None:
    """Rewrite the files of components in a folder of `save_pretrained`, in place."""
    for path in sorted(folder.glob(f"*--{COMPONENT_SUFFIX}")):
        with WeightsFile(path) as file:
            state = {name: file.read(name) for name in file.headers}
        if any(_of_film(name) for name in state):
            state = _with_empty_adapters(state)
        write_pickled(path.with_suffix(".pt"), state)
        path.unlink()


def _of_film(name: str) -> bool:
    return name.split(".")[-2] in FILM


def _with_empty_adapters(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of FiLM's towers with zero adapters on all linear maps except FiLM's."""
    weights: dict[str, Tensor] = {}
    for name, tensor in state.items():
        module, _, kind = name.rpartition(".")
        linear = state.get(f"{module}.weight", tensor).ndim == 2 and kind in ("weight", "bias")
        if not linear or _of_film(name):
            weights[name] = tensor
            continue
        weights[f"{module}.base_layer.{kind}"] = tensor
        if kind == "weight":
            outputs, inputs = tensor.shape
            weights[f"{module}.lora_A.default.weight"] = tensor.new_zeros(_RANK, inputs)
            weights[f"{module}.lora_B.default.weight"] = tensor.new_zeros(outputs, _RANK)
    return weights
