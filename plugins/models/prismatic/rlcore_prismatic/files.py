"""What a checkpoint folder must hold, found out before any worker starts. No tensor library.

model.safetensors                         network, under OpenVLA's names; or in shards:
model-0000x-of-0000y.safetensors, model.safetensors.index.json
NAME--STEP_checkpoint.{safetensors,pt}    parts of a policy besides the network
rl_heads.safetensors                      critic, where there is one
dataset_statistics.json                   normalisation statistics
tokenizer.json                            Llama's tokenizer
config.json, preprocessor_config.json     as transformers wants them
adapter_model.safetensors, adapter_config.json    adapters instead of a network, see adapters.py;
                                          the network is in the folder they name
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rlcore.errors import CheckpointError
from rlcore.track.headers import check_fit, damaged, read_headers
from rlcore_prismatic.adapters import check_adapters, has_adapters
from rlcore_prismatic.config_files import check_written_size
from rlcore_prismatic.layout import VALUE_HEAD, Shape
from rlcore_prismatic.sizes import SIZE_HINT, PrismaticSize
from rlcore_prismatic.stored import (
    COMPONENT_HINT,
    HEADS_FILE,
    Component,
    Stored,
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
    """The folder's files are whole, and its weights are those of this network. Headers only.

    Args:
        shapes: of the network in its files.
        adapted: of the network itself, where adapters find their places.
        head: of the critic; empty without one. One the folder does not hold starts fresh.
        components, left_out: those the settings ask for, and those they don't.
        lora_rank: of the adapters that will be trained; None where there are none.

    Raises:
        CheckpointError: what is missing, damaged or different.
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


def _check_left_out(folder: Path, component: Component, stored: Stored) -> None:
    """Refuse a folder with a part that would go unread: the network was trained with it."""
    places = dict.fromkeys((folder, base_folder(folder)))
    found = [file.name for place in places for file in component_files(component, place)]
    found += [name for name in component.names if name in stored.headers]
    if found:
        raise CheckpointError(
            f"{folder} holds {found[0]}, which actor.model.{component.key}=false leaves unread",
            hint=f"set actor.model.{component.key}=true, or move it away if it is of no use",
        )


def _check_component(folder: Path, component: Component, stored: Stored) -> None:
    """Refuse a component's file that is missing, damaged, or of other shapes. Of a `.pt` file
    only the container is looked at: its contents need torch to be read."""
    path = find_component(folder, component, stored)
    if path is not None and path.suffix == ".safetensors":
        check_fit(path, read_headers(path), component.shapes, hint=COMPONENT_HINT)
    elif path is not None and not zipfile.is_zipfile(path):
        raise damaged(path, "it is no file of torch.save")
