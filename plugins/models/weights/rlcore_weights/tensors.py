"""Read weights tensor by tensor, with adapters merged, and write weight files atomically.

Nothing here depends on a particular network; a model's plugin checks the names in its files.
"""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from rlcore.contracts.errors import CheckpointError
from rlcore.files.atomic import atomic_write
from rlcore.files.damaged_files import damaged_error
from rlcore_weights.headers import FLOATS
from rlcore_weights.layouts import Place, StoredWeights, file_headers
from rlcore_weights.torch_files import find_state, unsafe

ADAPTER = ".lora_"
_BASE = ".base_layer."


class WeightsFile:
    """A safetensors or torch.save file, opened for reading; its faults are CheckpointErrors.

    Each tensor is read when :meth:`read` asks for it.

    Args:
        path: the file. One that does not end in `.safetensors` is read as a torch.save file, with
            `weights_only=True`, so no code in it is executed.

    Raises:
        CheckpointError: it is missing, damaged or an unsafe pickle.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.headers = file_headers(path)
        self._file = None if path.suffix != ".safetensors" else safe_open(path, framework="pt")
        self._state = {} if self._file is not None else _unpickled(path)

    def __enter__(self) -> WeightsFile:
        return self

    def __exit__(self, *exception: object) -> None:
        del self._file, self._state

    def read(self, name: str) -> Tensor:
        """Return the tensor called `name`.

        Raises:
            CheckpointError: the file was damaged since it was opened, or the tensor holds NaN or
                infinite numbers.
        """
        try:
            tensor: Tensor = (
                self._state[name] if self._file is None else self._file.get_tensor(name)
            )
        except SafetensorError as error:
            raise damaged_error(self.path, str(error)) from error
        # check minimum and maximum: isfinite of the tensor would allocate a mask of its size
        if self.headers[name].dtype in FLOATS and tensor.numel():
            extremes = torch.stack(tensor.aminmax())
            if not extremes.isfinite().all():
                raise CheckpointError(
                    f"{self.path}: {name} holds NaN or infinite numbers",
                    hint="the training that wrote it had diverged: take an earlier checkpoint",
                )
        return tensor


def read_stored(
    stored: StoredWeights, names: Iterable[str], *, scale: Callable[[int], float]
) -> Iterator[tuple[str, Tensor]]:
    """Yield weights of a checkpoint by name, file by file, with unmerged adapters merged.

    Args:
        stored: where the weights are.
        names: names of the weights to read.
        scale: maps the rank of an adapter to its alpha / rank; see
            :func:`rlcore_weights.layouts.full_scale`.

    Raises:
        CheckpointError: a file was damaged since its headers were read, or a tensor holds NaN or
            infinite numbers.
    """
    names_by_file: dict[Path, list[str]] = {}
    for name in names:
        names_by_file.setdefault(stored.places[name][0], []).append(name)
    for path in sorted(names_by_file):
        with WeightsFile(path) as file:
            for name in names_by_file[path]:
                tensor = file.read(stored.places[name][1])
                adapter = stored.adapters.get(name)
                if adapter is not None:
                    a = _read_place(adapter.a, file)
                    b = _read_place(adapter.b, file)
                    tensor = add_low_rank(tensor, a, b, scale(adapter.rank))
                yield name, tensor


def add_low_rank(weight: Tensor, a: Tensor, b: Tensor, scale: float) -> Tensor:
    """Return W + scale B A in the dtype of W. B A is computed in fp32.

    Args:
        weight: `[out, in]`, or `[out, in, ...]` of a convolution.
        a, b: `[r, in, ...]` and `[out, r]`, or `[out, r, 1, ...]` of a convolution.
    """
    delta = torch.einsum("or,r...->o...", b.flatten(1).float(), a.float())
    return weight + (scale * delta).to(weight.dtype)


def _read_place(place: Place, file: WeightsFile) -> Tensor:
    """Read a tensor from the open file, or from another file, which is opened for it."""
    path, name = place
    if path == file.path:
        return file.read(name)
    with WeightsFile(path) as other_file:
        return other_file.read(name)


def _unpickled(path: Path) -> Mapping[str, Tensor]:
    """Load the tensors of a torch.save file by name; memory-mapped unless older than torch 1.6.

    Raises:
        CheckpointError: the file is damaged, or an unsafe pickle.
    """
    mapped = zipfile.is_zipfile(path)  # torch before 1.6 wrote no archives
    try:
        if mapped:  # torch does not verify the checksums
            with zipfile.ZipFile(path) as archive:
                if (bad := archive.testzip()) is not None:
                    raise damaged_error(path, f"the bytes of {bad} are not those of its checksum")
        tree = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except pickle.UnpicklingError:
        raise unsafe(path, "more than torch loads with weights_only=True") from None
    except (OSError, RuntimeError, EOFError, ValueError) as error:  # depends on what is damaged
        raise damaged_error(path, str(error).partition("\n")[0]) from error
    return find_state(path, tree, Tensor)[1]


def write_weights(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors by name to a safetensors file, atomically."""
    with atomic_write(path) as partial:
        on_host = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        save_file(on_host, partial, metadata={"format": "pt"})
        partial.chmod(0o644)  # safetensors writes for the owner alone


def write_pickled(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors by name to a torch.save file, atomically, for loaders that need one."""
    # a view would be written with its whole storage
    copies = {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}
    with atomic_write(path) as partial, partial.open("wb") as file:
        torch.save(copies, file)  # given a path, torch would write the path into the file


def plain_parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    """Return a module's parameters without adapters', by their names before adapters were added."""
    return {
        name.replace(_BASE, "."): parameter
        for name, parameter in module.named_parameters()
        if ADAPTER not in name
    }


def add_adapters(module: nn.Module, rank: int, alpha: float, targets: str | Sequence[str]) -> None:
    """Add low-rank adapters (without dropout) to a module in place, and freeze its other weights.

    Adapters start without an effect, because B is zero.

    Args:
        module: the module.
        rank: rank of A and B.
        alpha: B A is scaled by alpha / rank.
        targets: the modules to adapt: a regular expression of their names, or a list of names or
            last parts of names.
    """
    from peft import LoraConfig, inject_adapter_in_model

    config = LoraConfig(
        r=rank,
        lora_alpha=alpha,  # type: ignore[arg-type]  # any number, though declared an integer
        lora_dropout=0.0,
        init_lora_weights="gaussian",
        target_modules=targets if isinstance(targets, str) else list(targets),
    )
    inject_adapter_in_model(config, module)
    for name, parameter in module.named_parameters():
        if ADAPTER in name:  # in bf16 the steps of a small learning rate are lost
            parameter.data = parameter.data.float()


class MergedWeights(Mapping[str, Tensor]):
    """The adapted weights of a module with their adapters merged, by name without adapters.

    A weight is merged each time it is read and is not cached, because all of them together take as
    much memory as the network.

    Args:
        module: the module; without adapters the mapping is empty.
    """

    def __init__(self, module: nn.Module) -> None:
        # Any: torch and peft annotate only some of the attributes used here
        self._layers: dict[str, Any] = {
            f"{name}.weight": part
            for name, part in module.named_modules()
            if "lora_A" in dict(part.named_children())
        }

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
    """Return the shapes of parameters by name."""
    return {name: tuple(parameter.shape) for name, parameter in parameters.items()}
