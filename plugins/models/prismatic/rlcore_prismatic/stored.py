"""Find the tensors of the network, the components and the critic in a checkpoint folder.

Headers only, no tensor library. files.py checks what the files must hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlcore_weights.headers import TensorHeader, read_headers
from rlcore_weights.layouts import StoredWeights, stored_file, stored_weights, weights_file

from rlcore.contracts.errors import CheckpointError
from rlcore_prismatic.folders import Folders
from rlcore_prismatic.layout import VALUE_HEAD, Shape

HEADS_FILE = "rl_heads.safetensors"
COMPONENT_SUFFIX = "rlcore_checkpoint.safetensors"
_CRITIC_HINT = "set actor.model.value_type, critic_hidden and critic_elapsed as it was trained"
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
        """Return whether the component replaces a part of the network."""
        return self.module.startswith("network.")

    @property
    def prefix(self) -> str:
        """Prefix of the component's names in the network's files."""
        return self.module.removeprefix("network.") + "."

    @property
    def names(self) -> dict[str, str]:
        """Names in the network's files -> names in the component's own file."""
        return {f"{self.prefix}{name}": name for name in self.shapes}


def stored_network(folder: Path) -> StoredWeights:
    """Return the headers and places of the tensors in the network's files.

    Raises:
        CheckpointError: the folder has no weights, or a file is missing, damaged or does not match
            the index.
    """
    hint = "set actor.model.model_path to a folder in OpenVLA's layout"
    if any((folder / "checkpoints").glob("*.pt")):  # of openvla's train.py
        hint = (
            "convert it for transformers with openvla's own script: python "
            "vla-scripts/extern/convert_openvla_weights_to_hf.py --openvla_model_path_or_id "
            f"{folder} --output_hf_model_local_path FOLDER"
        )
    return stored_weights(folder, hint=hint)


def network_part(stored: StoredWeights, components: Sequence[Component]) -> dict[str, TensorHeader]:
    """Return the headers of the network's own tensors.

    Tensors of the critic and of components, which some trainers store in the same files, are left
    out.
    """
    others = {name for part in components for name in part.names}
    return {
        name: header
        for name, header in stored.headers.items()
        if name not in others and not name.startswith(f"{VALUE_HEAD}.")
    }


def network_needs(
    shapes: Mapping[str, Shape], components: Sequence[Component], stored: StoredWeights
) -> dict[str, Shape]:
    """Return the shapes of the tensors that the network's files must hold.

    A part that a component replaces may be missing, but only as a whole.
    """
    replaced = [part.prefix for part in components if part.in_network]
    present = network_part(stored, components)
    absent = tuple(
        prefix for prefix in replaced if not any(name.startswith(prefix) for name in present)
    )
    return {name: shape for name, shape in shapes.items() if not name.startswith(absent)}


def find_component(folders: Folders, component: Component, stored: StoredWeights) -> Path | None:
    """Return the file of a component; None if the network's files hold the component.

    The checkpoint's own folder is searched first, then the network's.

    Raises:
        CheckpointError: the component is missing, or there are several files of it.
    """
    for place in folders.places:
        files = component_files(component, place)
        if len(files) == 1:
            return files[0]
        if files:
            break
    if not files and component.names.keys() & stored.headers.keys():
        return None
    hint = f"choose another actor.model.model_path, or set actor.model.{component.key}=false"
    if files:
        hint = f"keep the file of the step that you want in {place}, and move the others away"
    raise CheckpointError(
        f"{folders.own} must hold one file {component.name}--*_checkpoint, got "
        f"{', '.join(file.name for file in files) or 'none'}",
        hint=hint,
    )


def stored_critic(
    folders: Folders, stored: StoredWeights
) -> tuple[Path, dict[str, TensorHeader], str]:
    """Find the critic: in `rl_heads.safetensors`, or in the network's file, as RLinf stores it.

    Returns:
        The file, the headers of the critic's tensors (empty: there is no critic), and the hint for
        tensors that don't fit.

    Raises:
        CheckpointError: both files hold a critic.
    """
    path = folders.find(HEADS_FILE)
    with_network = _critic_headers(stored.headers)
    if not path.exists():
        return weights_file(folders.base) or folders.base, with_network, _CRITIC_HINT
    own = _critic_headers(read_headers(path))
    if with_network:
        raise CheckpointError(
            f"{folders.base} holds a critic in the network's file, and {path} holds another",
            hint=f"move {HEADS_FILE} away to take the critic in the network's file",
        )
    return path, own, f"{_CRITIC_HINT}, or move {HEADS_FILE} away to start with a fresh one"


def _critic_headers(headers: Mapping[str, TensorHeader]) -> dict[str, TensorHeader]:
    return {name: header for name, header in headers.items() if name.startswith(f"{VALUE_HEAD}.")}


def merged_parts(
    folders: Folders, components: Sequence[Component], stored: StoredWeights
) -> tuple[str, ...]:
    """Return the name prefixes of components that are stored with their own adapters.

    Their adapters are merged when the component is read. OpenVLA-OFT's trainer saves FiLM's towers
    in this form, in the folder of the adapters.
    """
    prefixes = []
    for part in components:
        path = find_component(folders, part, stored) if part.in_network else None
        # files in the network's folder belong to the network, not to the adapters
        if path is None or path.parent != folders.own or folders.own == folders.base:
            continue
        if stored_file(path).adapters:
            prefixes.append(part.prefix)
    return tuple(prefixes)


def component_files(component: Component, folder: Path) -> list[Path]:
    """Return the files in a folder whose names are those of a component's file."""
    files = sorted(folder.glob(f"*{component.name}*checkpoint*"))
    return [file for file in files if file.is_file()]
