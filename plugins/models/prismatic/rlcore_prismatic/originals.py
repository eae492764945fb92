"""Rewrite a saved policy for OpenVLA-OFT's own loader, in `rlcore export`.

The network, its settings and statistics are in that form already. Parts besides it lie in files of
torch.save there, and FiLM's towers with adapters: the loader gives each of their linear maps an
adapter before it loads them, all names or none.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rlcore_weights.tensors import WeightsFile, write_pickled
from torch import Tensor

from rlcore_prismatic.layout import FILM
from rlcore_prismatic.stored import COMPONENT_SUFFIX

_RANK = 32  # of the loader's adapters, unless it is told another one


def to_original(folder: Path) -> None:
    """Rewrite the parts besides the network in a folder of `save_pretrained`."""
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
    """FiLM's towers with adapters that add nothing, on all linear maps but FiLM's own."""
    named: dict[str, Tensor] = {}
    for name, tensor in state.items():
        module, _, kind = name.rpartition(".")
        linear = state.get(f"{module}.weight", tensor).ndim == 2 and kind in ("weight", "bias")
        if not linear or _of_film(name):
            named[name] = tensor
            continue
        named[f"{module}.base_layer.{kind}"] = tensor
        if kind == "weight":
            outputs, inputs = tensor.shape
            named[f"{module}.lora_A.default.weight"] = tensor.new_zeros(_RANK, inputs)
            named[f"{module}.lora_B.default.weight"] = tensor.new_zeros(outputs, _RANK)
    return named
