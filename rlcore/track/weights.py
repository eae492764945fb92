"""Weights in safetensors files: read tensor by tensor, write whole or not at all, adapters merged.

Knows nothing of any network; which names a file must have is its plugin's to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from rlcore.track.files import replacing
from rlcore.track.headers import damaged, read_headers

ADAPTER = ".lora_"
_BASE = ".base_layer."


class WeightsFile:
    """A safetensors file whose faults are CheckpointErrors. Tensors are read when asked for.

    Args:
        path: the file.

    Raises:
        CheckpointError: it is missing or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.headers = read_headers(path)
        self._file = safe_open(path, framework="pt")

    def __enter__(self) -> WeightsFile:
        return self

    def __exit__(self, *exception: object) -> None:
        del self._file

    def read(self, name: str) -> Tensor:
        """The tensor called `name`."""
        try:
            tensor: Tensor = self._file.get_tensor(name)
        except SafetensorError as error:
            raise damaged(self.path, str(error)) from error
        return tensor


def write_weights(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors by name; the file is whole or not there."""
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with replacing(path) as partial:
        save_file(contiguous, partial, metadata={"format": "pt"})
        partial.chmod(0o644)  # safetensors writes for the owner alone


def plain_parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    """Parameters by the names they would have without adapters; those of adapters left out."""
    return {
        name.replace(_BASE, "."): parameter
        for name, parameter in module.named_parameters()
        if ADAPTER not in name
    }


class MergedWeights(Mapping[str, Tensor]):
    """Adapted weights with their adapters added, by the name they would have without. Each is made
    when it is asked for and not kept, as all of them together take as much memory as the network.

    Args:
        module: with adapters; without any the mapping is empty.
    """

    def __init__(self, module: nn.Module) -> None:
        # typed loosely: their base class lacks the methods that all of them have
        self._layers: dict[str, Any] = {}
        if any(ADAPTER in name for name, _ in module.named_parameters()):
            from peft.tuners.lora import LoraLayer  # takes seconds to import

            parts = module.named_modules()
            self._layers = {f"{n}.weight": part for n, part in parts if isinstance(part, LoraLayer)}

    def __getitem__(self, name: str) -> Tensor:
        layer = self._layers[name]
        weight: Tensor = layer.get_base_layer().weight.detach()
        delta: Any = sum(layer.get_delta_weight(adapter) for adapter in layer.active_adapters)
        return weight + delta.detach().to(weight.dtype)

    def __contains__(self, name: object) -> bool:
        return name in self._layers

    def __iter__(self) -> Iterator[str]:
        return iter(self._layers)

    def __len__(self) -> int:
        return len(self._layers)


def shapes_of(parameters: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Shapes by name."""
    return {name: tuple(parameter.shape) for name, parameter in parameters.items()}
