"""Load weights, strictly, and save them in OpenVLA's layout. They round-trip exactly.

See files.py for the contents of a folder, stored.py for where tensors are, layout.py for names.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from rlcore_weights.headers import TensorHeader, check_fit
from rlcore_weights.layouts import INDEX_FILE, StoredWeights, stored_file
from rlcore_weights.tensors import (
    MergedWeights,
    WeightsFile,
    add_low_rank,
    plain_parameters,
    read_stored,
    shapes_of,
    write_weights,
)
from torch import Tensor, nn

from rlcore.files.atomic import write_text
from rlcore_prismatic.adapters import ADAPTER_PREFIX, ADAPTERS_CONFIG, ADAPTERS_FILE, Adapters
from rlcore_prismatic.folders import Folders
from rlcore_prismatic.layout import FILM, VALUE_HEAD, is_film
from rlcore_prismatic.network.actor import TokenActor
from rlcore_prismatic.network.adapt import adapted_modules, lora_scale
from rlcore_prismatic.runs import network_scale, trainer_scale
from rlcore_prismatic.sizes import SIZE_HINT
from rlcore_prismatic.stored import (
    COMPONENT_HINT,
    COMPONENT_SUFFIX,
    HEADS_FILE,
    Component,
    find_component,
    network_needs,
    network_part,
    stored_critic,
    stored_network,
)

SHARD_BYTES = 5 * 10**9
_FILM = "vision_backbone.vision_backbone."

_log = logging.getLogger(__name__)


def load_network(
    actor: TokenActor,
    folders: Folders,
    components: Sequence[Component],
    adapters: Adapters | None,
    *,
    merge: bool,
) -> None:
    """Load all weights of the network and the components.

    A network on the meta device takes over the files' tensors.

    Args:
        actor: the actor to fill.
        folders: folders of the checkpoint.
        components: parts of the policy with their own files.
        adapters: adapters of the checkpoint; None without any.
        merge: whether to merge the adapters into the network's weights. Adapters of components
            outside the network are always merged.

    Raises:
        CheckpointError: a file is missing, damaged, or does not fit.
    """
    stored = stored_network(folders.base)
    part = network_part(stored, components)
    own_names = _published_names(actor.network)
    shapes = {
        name: tuple(actor.network.get_parameter(own).shape) for name, own in own_names.items()
    }
    needed = network_needs(shapes, components, stored)
    check_fit(folders.base, part, needed, hint=SIZE_HINT)
    weights = read_stored(stored, part, scale=network_scale(folders.base, stored))
    tensors = {own_names[name]: tensor for name, tensor in weights}
    for component in components:
        state = _component_state(folders, component, stored)
        if component.in_network:
            tensors |= {f"{component.prefix}{name}": tensor for name, tensor in state.items()}
        else:
            if adapters is not None:
                _add_to_part(state, component, adapters)
            _fill(actor.get_submodule(component.module), state)
    if merge and adapters is not None:
        _merge_into(tensors, adapters)
    if any(parameter.is_meta for parameter in actor.network.parameters()):
        actor.network.load_state_dict(tensors, assign=True)
        actor.network.fill_buffers()
    else:
        _fill(actor.network, tensors)


def load_value_head(actor: TokenActor, folders: Folders) -> None:
    """Load the critic from `rl_heads.safetensors`, or from the network's file, as RLinf stores it.

    If the checkpoint has no critic, the policy's keeps its fresh weights; this is logged.

    Raises:
        CheckpointError: a damaged file, or a critic of another shape.
    """
    if actor.value_head is None:
        return
    stored = stored_network(folders.base)
    path, headers, hint = stored_critic(folders, stored)
    if not headers:
        _log.info("%s has no critic: starting with fresh weights", folders.own)
        return
    check_fit(path, headers, shapes_of(_head_parameters(actor.value_head)), hint=hint)
    if path.name == HEADS_FILE:
        stored = stored_file(path)
    weights = read_stored(stored, headers, scale=network_scale(folders.base, stored))
    _fill(
        actor.value_head,
        {name.removeprefix(f"{VALUE_HEAD}."): tensor for name, tensor in weights},
    )


def fill_adapters(actor: TokenActor, adapters: Adapters) -> None:
    """Load the network's adapters, and FiLM's weights if they are stored with them."""
    with WeightsFile(adapters.file) as file, torch.no_grad():
        for name, parameter in _adapters(actor.network):
            if name in file.headers:  # read_adapters has checked that they fit
                parameter.copy_(file.read(name))


def save_network(actor: TokenActor, folder: Path) -> None:
    """Write the network, in shards with an index if it has more than :data:`SHARD_BYTES`.

    Adapters are merged shard by shard, to save memory.
    """
    from huggingface_hub import split_state_dict_into_shards_factory  # slow to import

    own = _published_names(actor.network)
    plain = plain_parameters(actor.network)
    merged = MergedWeights(actor.network)
    split = split_state_dict_into_shards_factory(
        {name: plain[own_name] for name, own_name in own.items()},
        get_storage_size=lambda tensor: tensor.numel() * tensor.element_size(),
        filename_pattern="model{suffix}.safetensors",
        max_shard_size=SHARD_BYTES,
    )
    for file, names in split.filename_to_tensors.items():
        write_weights(
            folder / file,
            {name: (merged if own[name] in merged else plain)[own[name]] for name in names},
        )
    if split.is_sharded:
        index = {"metadata": split.metadata, "weight_map": split.tensor_to_filename}
        write_text(folder / INDEX_FILE, json.dumps(index, indent=2) + "\n")


def save_components(actor: TokenActor, folder: Path, components: Sequence[Component]) -> None:
    """Write each component into its own file."""
    for component in components:
        module = actor.get_submodule(component.module)
        write_weights(folder / f"{component.name}--{COMPONENT_SUFFIX}", _whole(module))


def save_adapters(actor: TokenActor, folder: Path, base: str) -> None:
    """Write only the adapters, in peft's format, and the folder of the network that they adapt."""
    rank, alpha = lora_scale(actor.network)
    write_weights(folder / ADAPTERS_FILE, dict(_adapters(actor.network)))
    content = {
        "base_model_name_or_path": base,
        "bias": "none",
        "init_lora_weights": True,
        "lora_alpha": alpha,
        "lora_dropout": 0.0,
        "modules_to_save": list(FILM) if actor.network.film else None,
        "peft_type": "LORA",
        "r": rank,
        "target_modules": adapted_modules(actor.network),
    }
    write_text(folder / ADAPTERS_CONFIG, json.dumps(content, indent=2) + "\n")


def save_value_head(actor: TokenActor, folder: Path) -> None:
    """Write `rl_heads.safetensors` if there is a critic."""
    if actor.value_head is not None:
        write_weights(folder / HEADS_FILE, _head_parameters(actor.value_head))


def _head_parameters(head: nn.Module) -> dict[str, nn.Parameter]:
    """Return the critic's parameters by their names in files."""
    return {f"{VALUE_HEAD}.{name}": parameter for name, parameter in head.named_parameters()}


def _whole(module: nn.Module) -> dict[str, Tensor]:
    """Return a module's weights with adapters merged, by their names without adapters."""
    plain = {name: parameter.detach() for name, parameter in plain_parameters(module).items()}
    return {**plain, **MergedWeights(module)}


def _published_names(network: nn.Module) -> dict[str, str]:
    """Map names in the network's files to names in the module, without adapters and FiLM."""
    names = [name for name in plain_parameters(network) if not is_film(name)]
    return {_published(name): name for name in names}


def _published(name: str) -> str:
    """Return a weight's name in the network's files, without the levels that FiLM adds."""
    if not name.startswith(_FILM):
        return name
    return name.replace(_FILM, "vision_backbone.").replace(".block.", ".")


def _fill(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(state[name])


def _adapters(network: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Yield the parameters of adapters and of FiLM, with peft's names in files."""
    for name, parameter in network.named_parameters():
        if ".lora_" in name or is_film(name):
            yield f"{ADAPTER_PREFIX}{name.replace('.default.', '.')}", parameter


def _merge_into(tensors: dict[str, Tensor], adapters: Adapters) -> None:
    """Replace the fully trained weights, then merge the adapters into theirs: W + s B A."""
    with WeightsFile(adapters.file) as file:
        for name, key in adapters.trained.items():
            tensors[name] = file.read(key)
        for module in adapters.modules:
            weight = f"{module}.weight"
            tensors[weight] = _added(tensors[weight], module, adapters, file)


def _add_to_part(state: dict[str, Tensor], component: Component, adapters: Adapters) -> None:
    """Merge the adapters of a component outside the network into its weights."""
    with WeightsFile(adapters.file) as file:
        for module in adapters.component_modules:
            name = component.names.get(f"{module}.weight")
            if name is not None:
                state[name] = _added(state[name], module, adapters, file)


def _added(weight: Tensor, module: str, adapters: Adapters, file: WeightsFile) -> Tensor:
    """Return W + s B A for the adapter of a module."""
    a = file.read(f"{ADAPTER_PREFIX}{module}.lora_A.weight")
    b = file.read(f"{ADAPTER_PREFIX}{module}.lora_B.weight")
    return add_low_rank(weight, a, b, adapters.settings.scale_of(module))


def _component_state(
    folders: Folders, component: Component, stored: StoredWeights
) -> dict[str, Tensor]:
    """Read the weights of a component, by the names in `component.shapes`.

    They are in the component's own file, or in the network's files if the trainer saved the whole
    policy.

    Raises:
        CheckpointError: they are missing, damaged, or do not fit.
    """
    path = find_component(folders, component, stored)
    if path is None:
        own = component.names
        names = [name for name in own if name in stored.headers]
        weights = read_stored(stored, names, scale=network_scale(folders.base, stored))
        state = {own[name]: tensor for name, tensor in weights}
    else:
        own_file = stored_file(path)
        state = dict(read_stored(own_file, own_file.headers, scale=trainer_scale))
    headers = {name: TensorHeader("F32", tuple(tensor.shape)) for name, tensor in state.items()}
    check_fit(path or folders.base, headers, component.shapes, hint=COMPONENT_HINT)
    return state
