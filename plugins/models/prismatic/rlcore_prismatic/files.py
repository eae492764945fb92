"""Check the files of a checkpoint folder before any worker starts. No tensor library.

model.safetensors                         network, under OpenVLA's names; or in another layout of
                                          rlcore_weights.layouts
NAME--STEP_checkpoint.{safetensors,pt}    parts of a policy besides the network
rl_heads.safetensors                      critic, if there is one
dataset_statistics.json                   normalisation statistics
tokenizer.json                            Llama's tokenizer
config.json, preprocessor_config.json     as transformers reads them
adapter_model.safetensors, adapter_config.json    adapters of a network elsewhere, see folders.py
"""

from __future__ import annotations

from collections.abc import Mapping

from rlcore_weights.headers import check_fit
from rlcore_weights.layouts import StoredWeights, stored_file

from rlcore.contracts.errors import CheckpointError
from rlcore_prismatic.config_files import PREPROCESSOR_FILE, check_images, check_written_size
from rlcore_prismatic.folders import Folders
from rlcore_prismatic.layout import Shape, network_shapes
from rlcore_prismatic.resolved import Resolved
from rlcore_prismatic.runs import network_scale
from rlcore_prismatic.sizes import SIZE_HINT
from rlcore_prismatic.stored import (
    COMPONENT_HINT,
    Component,
    component_files,
    find_component,
    network_needs,
    network_part,
    stored_critic,
    stored_network,
)


def check_folders(folders: Folders, resolved: Resolved, head: Mapping[str, Shape]) -> None:
    """Check that a checkpoint's files are complete and its weights fit the network. Headers only.

    Args:
        head: shapes of the critic; empty without one. A critic that the folder lacks starts fresh.

    Raises:
        CheckpointError: a file is missing, damaged or different; the message names it.
    """
    size = resolved.size
    components = resolved.components
    stored = stored_network(folders.base)
    check_written_size(folders.base, size)
    for component in resolved.left_out:
        _check_left_out(folders, component, stored)
    needed = network_needs(network_shapes(size), components, stored)
    check_fit(folders.base, network_part(stored, components), needed, hint=SIZE_HINT)
    check_images(folders.find(PREPROCESSOR_FILE), size)
    network_scale(folders.base, stored)  # refuses adapters whose scale can't be known
    for component in components:
        path = find_component(folders, component, stored)
        if path is not None:
            check_fit(path, stored_file(path).headers, component.shapes, hint=COMPONENT_HINT)
    file, critic, hint = stored_critic(folders, stored)
    if head and critic:
        check_fit(file, critic, head, hint=hint)


def _check_left_out(folders: Folders, component: Component, stored: StoredWeights) -> None:
    """Refuse a folder with a part that the settings ignore: the network was trained with it."""
    ignored = [file.name for place in folders.places for file in component_files(component, place)]
    ignored += [name for name in component.names if name in stored.headers]
    if ignored:
        raise CheckpointError(
            f"{folders.own} holds {ignored[0]}, but actor.model.{component.key}=false ignores it",
            hint=f"set actor.model.{component.key}=true, or move it away if you do not need it",
        )
