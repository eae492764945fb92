"""What a checkpoint folder must hold, checked before any worker starts. No tensor library.

model.safetensors                         network, under OpenVLA's names; or in shards:
model-0000x-of-0000y.safetensors, model.safetensors.index.json
NAME--STEP_checkpoint.{safetensors,pt}    parts of a policy besides the network
rl_heads.safetensors                      critic, if there is one
dataset_statistics.json                   normalisation statistics
tokenizer.json                            Llama's tokenizer
config.json, preprocessor_config.json     as transformers reads them
adapter_model.safetensors, adapter_config.json    adapters instead of a network, see adapters.py;
                                          they name the network's folder
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rlcore.errors import CheckpointError
from rlcore.track.headers import check_fit, read_headers
from rlcore.track.stored import StoredWeights, stored_file
from rlcore_prismatic.adapters import check_adapters, has_adapters
from rlcore_prismatic.config_files import check_written_size
from rlcore_prismatic.layout import VALUE_HEAD, Shape
from rlcore_prismatic.sizes import SIZE_HINT, PrismaticSize
from rlcore_prismatic.stored import (
    COMPONENT_HINT,
    HEADS_FILE,
    Component,
    base_folder,
    component_files,
    find_component,
    network_needs,
    network_part,
    stored_network,
)


def check_folder(
    folder: Path,
    size: PrismaticSize,
    *,
    shapes: Mapping[str, Shape],
    adapted: Mapping[str, Shape],
    head: Mapping[str, Shape],
    components: Sequence[Component],
    left_out: Sequence[Component],
    lora_rank: int | None,
) -> None:
    """Check that the folder's files are complete and its weights fit the network. Headers only.

    Args:
        shapes: of the network in its files.
        adapted: of the network itself, with the modules that adapters adapt.
        head: of the critic; empty without one. A critic that the folder lacks starts fresh.
        components, left_out: parts that the settings use, and parts that they don't.
        lora_rank: of the adapters to train; None without.

    Raises:
        CheckpointError: names what is missing, damaged or different.
    """
    base = base_folder(folder)
    stored = stored_network(base)
    check_written_size(base, size)
    for component in left_out:
        _check_left_out(folder, component, stored)
    needed = network_needs(shapes, folder, components, stored)
    check_fit(base, network_part(stored, components), needed, hint=SIZE_HINT)
    for component in components:
        _check_component(folder, component, stored)
    heads = read_headers(folder / HEADS_FILE) if (folder / HEADS_FILE).exists() else stored.headers
    found = {name: header for name, header in heads.items() if name.startswith(f"{VALUE_HEAD}.")}
    if head and found:
        hint = f"move {HEADS_FILE} away to start with a fresh critic"
        check_fit(folder / HEADS_FILE, found, head, hint=hint)
    if has_adapters(folder):
        check_adapters(folder, adapted, lora_rank)


def _check_left_out(folder: Path, component: Component, stored: StoredWeights) -> None:
    """Refuse a folder with a part that we would ignore: the network was trained with it."""
    places = dict.fromkeys((folder, base_folder(folder)))
    found = [file.name for place in places for file in component_files(component, place)]
    found += [name for name in component.names if name in stored.headers]
    if found:
        raise CheckpointError(
            f"{folder} holds {found[0]}, but actor.model.{component.key}=false ignores it",
            hint=f"set actor.model.{component.key}=true, or move it away if you do not need it",
        )


def _check_component(folder: Path, component: Component, stored: StoredWeights) -> None:
    """Refuse a component's file that is missing, damaged, or of other shapes."""
    path = find_component(folder, component, stored)
    if path is not None:
        check_fit(path, stored_file(path).headers, component.shapes, hint=COMPONENT_HINT)
