"""Export the policy of a checkpoint to a separate folder, in the format of its original code.

A checkpoint is already almost in that format: its files are copied, and the model's plugin converts
the rest (`ComponentSpec.original`). The policy is built only to convert between merged weights and
adapter-only weights. No env and no worker is started.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rlcore_weights.adapter_folder import ADAPTERS_CONFIG, base_of_adapters

from rlcore.api import (
    Checkpoint,
    build_policy,
    check_model,
    open_run,
    restore_trained,
    save_policy,
    writing,
)
from rlcore.config.schema import ModelConfig, RunConfig
from rlcore.contracts.errors import ConfigError
from rlcore.files.atomic import new_folder
from rlcore.files.symlinks import require_self_contained
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import Registry
from rlcore.runs.acting import acting_algorithm
from rlcore.runs.folder import RunFolder

ELSEWHERE = "name a folder elsewhere"


@dataclass(frozen=True)
class Exported:
    """An exported policy.

    Attributes:
        path: folder of the export, which `actor.model.model_path` accepts.
        base: folder of the base model if only adapters were written; None for a whole policy.
        acted_with: algorithm whose acting networks the checkpoint holds; None if it holds none.
        acts_with: algorithm whose acting networks the export holds; None if it holds none.
    """

    path: Path
    base: str | None = None
    acted_with: str | None = None
    acts_with: str | None = None


def export(
    config: RunConfig,
    checkpoint: Checkpoint,
    target: Path,
    registry: Registry,
    *,
    adapters_only: bool = False,
    layout: str | None = None,
) -> Exported:
    """Write the policy of a checkpoint to `target` atomically: on failure nothing is left there.

    Args:
        config: configuration of the run, with a placement for this machine.
        checkpoint: checkpoint to export.
        target: an empty folder, or a path that does not exist yet.
        adapters_only: write the trained adapters without the base weights.
        layout: a layout of another system, which the model must offer; None for the model's own.

    Raises:
        ConfigError: `target` can't be used, the policy has no adapters, or the model does not
            offer the layout.
        CheckpointError: the base model of the adapters is missing, or writing failed.
    """
    target = target.expanduser().resolve()
    with writing(target, hint=ELSEWHERE):
        for obstacle, hint in _obstacles(target, checkpoint):
            raise ConfigError(obstacle, hint=hint)
    model = config.actor.model
    if adapters_only and not model.is_lora:
        raise ConfigError(
            "--adapter-only is for runs with actor.model.is_lora=true: this run trained all "
            "weights",
            hint=f"rlcore export {checkpoint.path} {target}",
        )
    write_layout = None if layout is None else _layout_writer(model.model_type, layout, registry)
    with writing(target, hint=ELSEWHERE), new_folder(target) as partial:
        if write_layout is not None:
            with _merged_policy(config, checkpoint, registry, partial.parent) as folder:
                write_layout(folder, partial)
        elif adapters_only == (model.is_lora and model.save_adapters_only):
            require_self_contained(checkpoint.path)
            shutil.copytree(checkpoint.policy_path, partial, dirs_exist_ok=True)
        else:
            _convert(config, checkpoint, partial, registry, adapters_only=adapters_only)
        original = registry.get("model", model.model_type).spec.original
        if original is not None and write_layout is None:
            load_target(original)(partial)
        _check_loadable(config, partial, registry)
    base = base_of_adapters(target) if adapters_only else None
    return Exported(
        target, base, acting_algorithm(checkpoint.policy_path), acting_algorithm(target)
    )


def _layout_writer(model: str, name: str, registry: Registry) -> Callable[[Path, Path], None]:
    """Return the function that writes a saved model in another system's layout."""
    target = registry.get("model", model).spec.layouts
    layouts: Mapping[str, Callable[[Path, Path], None]] = load_target(target) if target else {}
    if name not in layouts:
        choices = (
            f"one of {', '.join(layouts)}" if layouts else f"left out: {model} has no other layout"
        )
        raise ConfigError(f"--layout must be {choices}, got {name!r}")
    return layouts[name]


@contextmanager
def _merged_policy(
    config: RunConfig, checkpoint: Checkpoint, registry: Registry, parent: Path
) -> Iterator[Path]:
    """Yield a folder that holds the policy with merged adapters.

    It is the folder of the checkpoint if the checkpoint has them merged, else a temporary folder
    in `parent` that is deleted on exit.
    """
    model = config.actor.model
    if not (model.is_lora and model.save_adapters_only):
        require_self_contained(checkpoint.path)
        yield checkpoint.policy_path
        return
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        _convert(config, checkpoint, Path(folder), registry, adapters_only=False)
        yield Path(folder)


def _obstacles(target: Path, checkpoint: Checkpoint) -> Iterator[tuple[str, str | None]]:
    """Yield (reason, hint) for each reason why the export can't be written to `target`.

    The parent folder must be writable too, as the export is written there and then renamed.
    """
    existing = next(path for path in (target, *target.parents) if path.exists())
    if not existing.is_dir():
        place = "" if existing == target else f" {target} can't be in it:"
        yield f"{existing} is a file:{place} export writes a folder", None
    outside = "name a folder outside it"
    if target.is_relative_to(checkpoint.path.resolve()):
        yield f"{target} is inside the checkpoint to export, which must not change", outside
    for run in map(RunFolder, target.parents):
        if run.config.is_file() and (run.checkpoints.is_dir() or run.metrics.is_file()):
            yield (
                f"{target} is inside the run {run.path}, which writes to its folder itself",
                outside,
            )
    if os.path.ismount(target):
        inside = f"name a folder in it: {target / 'policy'}"
        yield f"{target} is a mount point, which can't be replaced by a folder", inside
    if existing == target and not os.access(target, os.R_OK | os.X_OK):
        yield f"can't read {target} to see whether it is empty", None
    if existing == target and any(target.iterdir()):
        hint = "name another folder, or empty it"
        yield f"{target} is not empty, and export overwrites nothing", hint
    parent = target.parent if existing == target else existing
    if not os.access(parent, os.W_OK | os.X_OK):
        yield f"can't make {target}: no permission to write to {parent}", ELSEWHERE


def _convert(
    config: RunConfig,
    checkpoint: Checkpoint,
    folder: Path,
    registry: Registry,
    *,
    adapters_only: bool,
) -> None:
    """Build the policy with unmerged adapters and save it in the other form.

    If the checkpoint's policy has its adapters merged, they are restored from the learner's state
    onto the weights that the run started from. Otherwise the policy itself holds them.
    """
    model = config.actor.model.with_weights_from(checkpoint.policy_path)
    if adapters_only:
        model = _initial_model(config, checkpoint)
    model = replace(model, save_adapters_only=adapters_only)
    policy, env_spec = build_policy(_with_model(config, model), registry)
    if adapters_only:
        restore_trained(policy, checkpoint)
    save_policy(policy, env_spec, folder)


def _initial_model(config: RunConfig, checkpoint: Checkpoint) -> ModelConfig:
    """Return the model settings with the weights that reinforcement learning started from."""
    model = config.actor.model
    if config.supervised_only:
        raise ConfigError(
            "--adapter-only needs the adapters alone, but supervised training has merged them into "
            "the weights",
            hint=f"rlcore export {checkpoint.path} DEST writes the merged weights",
        )
    if config.sft.enabled:
        return model.with_weights_from(open_run(checkpoint.path).folder.sft)
    if model.model_path is None:
        raise ConfigError(
            "--adapter-only needs the model that the adapters adapt, but this run began with "
            "random weights, which were never saved",
            hint=f"rlcore export {checkpoint.path} DEST writes the merged weights",
        )
    return model


def _check_loadable(config: RunConfig, folder: Path, registry: Registry) -> None:
    """Raise an error if the export could not be loaded again, judging by its headers alone."""
    adapters = (folder / ADAPTERS_CONFIG).is_file()
    model = replace(config.actor.model.with_weights_from(folder), save_adapters_only=adapters)
    check_model(_with_model(config, model), registry)


def _with_model(config: RunConfig, model: object) -> RunConfig:
    return replace(config, actor=replace(config.actor, model=model))  # type: ignore[arg-type]
