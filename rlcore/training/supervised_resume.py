"""Check the supervised checkpoint, its history and the demonstrations that a resumed run reuses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlcore.checks.facts import with_policy
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import CheckpointError, ConfigError
from rlcore.demonstrations.datasets import check_readable, format_of
from rlcore.files.damaged_files import read_json
from rlcore.files.digests import check_seal
from rlcore.plugins.registry import load_plugins
from rlcore.runs.folder import SUPERVISED_POLICY, RunFolder
from rlcore.runs.sft_record import log_difference
from rlcore.runs.trackers import read_metrics
from rlcore.training.assembly import Assembly
from rlcore.training.fixed_keys import changed_keys, has_moved, is_read
from rlcore.training.supervised_states import check_state, latest_state
from rlcore.utils.text import format_value


def check_start(assembly: Assembly, folder: RunFolder, so_far: Mapping[str, Any]) -> None:
    """Check the supervised checkpoint of a resumed run, and the data that the run still needs.

    Args:
        so_far: the run's configuration before this resume, as nested mappings.

    Raises:
        UserError: the policy, its history or the data is damaged, or of another run or env; or a
            setting of rounds that are to be continued has changed.
    """
    config = assembly.config
    has_policy = folder.sft.is_dir()
    if not has_policy:
        _check_unfinished(config, folder, so_far)
    if has_policy:
        model = config.actor.model.with_weights_from(folder.sft)
        with_policy(assembly.facts, model, load_plugins())
        check_seal(folder.sft, config.runner.seed)
        check_history(folder.path / "sft.json", folder.metrics)
    if not has_policy or config.sft.control or assembly.needs.demonstrations:
        spec = assembly.env_specs["train"]
        if config.collect.path is None:
            path = folder.demonstrations
            data_format = format_of(path, config.collect.format)
            data_format.check_folder(path, spec, config.collect, seed=config.runner.seed)
        else:
            path = Path(config.collect.path)
            check_readable(path, spec, config.collect, seed=config.runner.seed)


def _check_unfinished(config: RunConfig, folder: RunFolder, so_far: Mapping[str, Any]) -> None:
    """Check the rounds of `sft.until=plateau` and the saved states from which an interrupted run
    continues, if there are any.

    Raises:
        ConfigError: a setting that decided their weights has changed.
        CheckpointError: a file of them is damaged or of another run.
    """
    unfinished = [path for path in (folder.sft_rounds, folder.sft_steps) if path.is_dir()]
    if not unfinished:
        return
    places = " and ".join(map(str, unfinished))
    for key, previous in changed_keys(config, so_far):
        if is_read(config, key) and not (key.place and has_moved(previous)):
            raise ConfigError(
                f"{key.path} can't be changed to {format_value(key.value)}: the supervised "
                f"training in {places} began with {format_value(previous)}",
                hint=f"leave it out, or remove {places} to repeat the supervised training",
            )
    for policy in folder.sft_rounds.glob(f"*/{SUPERVISED_POLICY}"):
        check_seal(policy, config.runner.seed)
    state = latest_state(folder)
    if state is not None:
        check_state(state, config.runner.seed)


def check_history(path: Path, log: Path) -> None:
    """Refuse a history that differs from the logged metrics, because a resume may log it again.

    Args:
        path: file of the history; a missing file is accepted.
        log: the run's `metrics.jsonl`; the check is skipped if it can't be read.

    Raises:
        CheckpointError: the history is damaged, or of another run.
    """
    if not path.is_file():
        return
    try:
        metrics = read_metrics(log)
    except (OSError, ValueError):
        return
    fault = log_difference(read_json(path), metrics, path.stem)
    if fault is not None:
        raise CheckpointError(
            f"{path} {fault}",
            hint=f"restore the run's own file, or remove {path.with_suffix('')} to repeat the "
            "supervised training",
        )
