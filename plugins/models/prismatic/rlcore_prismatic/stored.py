"""Where the tensors of a checkpoint folder are: those of the network, and of parts besides it.

Headers only, no tensor library. files.py checks what the files must hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlcore.errors import CheckpointError
from rlcore.track.headers import TensorHeader
from rlcore.track.stored import StoredWeights, has_weights, stored_weights
from rlcore_prismatic.adapters import ADAPTERS_CONFIG, has_adapters
from rlcore_prismatic.layout import VALUE_HEAD, Shape
from rlcore_prismatic.statistics import read_json

HEADS_FILE = "rl_heads.safetensors"
COMPONENT_SUFFIX = "rlcore_checkpoint.safetensors"
COMPONENT_HINT = "check actor.model.proprio_dim, action_dim, num_action_chunks and size"


@dataclass(frozen=True)
class Component:
    """A part of a policy with its own file.

    Attributes:
        name: the file is called `*NAME*checkpoint*`.
        shapes: of its parameters, by their names in that file.
        module: dotted path of the module in the policy's actor.
        key: the model's setting that turns it on.
    """

    name: str
    shapes: Mapping[str, Shape]
    module: str
    key: str

    @property
    def in_network(self) -> bool:
        """Whether it replaces a part of the network."""
        return self.module.startswith("network.")

    @property
    def prefix(self) -> str:
        """Prefix of its names in the network's files."""
        return self.module.removeprefix("network.") + "."

    @property
    def names(self) -> dict[str, str]:
        """Names in the network's files -> names in its own file."""
        return {f"{self.prefix}{name}": name for name in self.shapes}


def base_folder(folder: Path) -> Path:
    """The folder of a checkpoint's network: this one, or the one that its adapters name.

    Raises:
        CheckpointError: the folder does not exist.
    """
    if not folder.is_dir():
        raise CheckpointError(
            f"actor.model.model_path {str(folder)!r} is not a folder",
            hint="give the folder of a checkpoint, or null to start from random weights",
        )
    if not has_adapters(folder) or has_weights(folder):
        return folder
    base = read_json(folder / ADAPTERS_CONFIG).get("base_model_name_or_path")
    if not isinstance(base, str) or not Path(base).is_dir():
        raise CheckpointError(
            f"{folder} holds adapters for the model in {base!r}, which is not a folder",
            hint="write the model's folder into base_model_name_or_path of "
            f"{folder / ADAPTERS_CONFIG}",
        )
    return Path(base)


def stored_network(folder: Path) -> StoredWeights:
    """Tensors of the network's files.

    Raises:
        CheckpointError: there are none, or one is missing, damaged or does not match the index.
    """
    return stored_weights(folder, hint="set actor.model.model_path to a folder in OpenVLA's layout")


def network_part(stored: StoredWeights, components: Sequence[Component]) -> dict[str, TensorHeader]:
    """The network's tensors: all but heads and components, which trainers that save the whole
    policy store in the same files."""
    others = {name for part in components for name in part.names}
    return {
        name: header
        for name, header in stored.headers.items()
        if name not in others and not name.startswith(f"{VALUE_HEAD}.")
    }


def network_needs(
    shapes: Mapping[str, Shape],
    folder: Path,
    components: Sequence[Component],
    stored: StoredWeights,
) -> dict[str, Shape]:
    """The tensors that the network's files must hold: all but those that a component in the same
    files replaces."""
    replaced = tuple(
        part.prefix
        for part in components
        if part.in_network and find_component(folder, part, stored) is None
    )
    return {name: shape for name, shape in shapes.items() if not name.startswith(replaced)}


def find_component(folder: Path, component: Component, stored: StoredWeights) -> Path | None:
    """The file of a component, for adapters also looked for in the folder of their network; None if
    the network's files hold it.

    Raises:
        CheckpointError: none is there, or several.
    """
    for place in (folder, base_folder(folder)):
        files = component_files(component, place)
        if len(files) == 1:
            return files[0]
        if files:
            break
    if not files and component.names.keys() & stored.headers.keys():
        return None
    raise CheckpointError(
        f"{folder} must hold one file {component.name}--*_checkpoint, got "
        f"{', '.join(file.name for file in files) or 'none'}",
        hint=f"choose another actor.model.model_path, or set actor.model.{component.key}=false",
    )


def component_files(component: Component, folder: Path) -> list[Path]:
    """The files in a folder that may hold a component."""
    return [f for f in sorted(folder.glob(f"*{component.name}*checkpoint*")) if f.is_file()]
