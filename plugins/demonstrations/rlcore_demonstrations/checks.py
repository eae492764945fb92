"""Check what collection and supervised training need, before a run starts.

The core calls these checks for runs that collect demonstrations or learn from them, and when such a
run is resumed. Imports no tensor library.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rlcore.checks.facts import Facts, with_policy
from rlcore.checks.held_out import evaluated_starts, in_short
from rlcore.config.schema import OWN_SUCCESSES, RunConfig
from rlcore.contracts.errors import CheckpointError, ConfigError, UserError
from rlcore.contracts.specs import EnvSpec
from rlcore.demonstrations.datasets import Dataset, format_of, require_dataset
from rlcore.files.damaged_files import read_json
from rlcore.files.digests import check_seal
from rlcore.plugins.registry import load_plugins
from rlcore_demonstrations.data import finished

if TYPE_CHECKING:
    from rlcore.api import Assembly
    from rlcore.run_folder.folder import RunFolder


def check_supervised(facts: Facts, *, collects: bool = False) -> Iterator[str]:
    """Yield a sentence for each invalid setting.

    Args:
        facts: the configuration and what is known of its components.
        collects: whether the command only collects demonstrations.

    Raises:
        CheckpointError: the data set is damaged.
        ConfigError: the data is of another env, or an interrupted collection has other settings.
        PluginError: no plugin has the format.
    """
    if facts.config.sft.enabled:
        yield from _numbers(facts.config)
        yield from _supervision(facts)
    if collects:
        _check_output(facts)
    # which data a resumed run still reads depends on its progress: see check_start
    elif facts.config.runner.resume_dir is None:
        yield from _data(facts)


def check_start(assembly: Assembly, folder: RunFolder) -> None:
    """Check the supervised checkpoint of a resumed run, and the data that the run still needs.

    Raises:
        UserError: the policy, its history or the data is damaged, or of another run or env.
    """
    config, started = assembly.config, folder.sft.is_dir()
    if started:
        model = config.actor.model.with_weights_from(folder.sft)
        with_policy(assembly.facts, model, load_plugins())
        check_seal(folder.sft, config.runner.seed)
        check_history(folder.path / "sft.json", folder.metrics)
    if not started or config.sft.control or assembly.needs.demonstrations:
        spec = assembly.env_specs["train"]
        if config.collect.path is None:
            path = folder.demonstrations
            form = format_of(path, config.collect.format)
            form.check_folder(path, spec, config.collect, seed=config.runner.seed)
        else:
            _check_readable(config, spec)


def check_history(path: Path, log: Path) -> None:
    """Refuse a history that differs from the logged metrics, because a resume may log it again.

    Args:
        path: file of the history; a missing file is accepted.
        log: the run's `metrics.jsonl`; the check is skipped if it can't be read.

    Raises:
        CheckpointError: the history is damaged, or of another run.
    """
    from rlcore.run_folder.sft_record import unlike_log
    from rlcore.run_folder.trackers import read_metrics

    if not path.is_file():
        return
    try:
        metrics = read_metrics(log)
    except (OSError, ValueError):
        return
    fault = unlike_log(read_json(path), metrics, path.stem)
    if fault is not None:
        raise CheckpointError(
            f"{path} {fault}",
            hint=f"put back the run's own, or remove {path.with_suffix('')}: it is made again",
        )


def said_demonstrations(facts: Facts, *, collects: bool) -> str:
    """Return a line for `--dry-run`: which demonstrations are learned from or collected.

    It is empty if there are none, or if the data set is invalid, which the checks report.

    Args:
        collects: whether the command only collects demonstrations.
    """
    config, train = facts.config, facts.envs["train"]
    learns = config.sft.enabled or (facts.needs is not None and facts.needs.demonstrations)
    if not collects and (not learns or config.runner.only_eval or config.runner.resume_dir):
        return ""
    if not collects and config.collect.path is not None:
        try:
            name, data = finished(Path(config.collect.path))
            summary = data.summary()
        except UserError:
            return ""
        return (
            f"demonstrations: {config.collect.path} ({name}), {summary.demonstrations} of its "
            f"{summary.episodes} episodes"
        )
    where = (collects and config.collect.output) or "the run"
    count = config.collect.episodes_per_task
    return (
        f"demonstrations: collected into {where} by the expert of {train.name}, {count} of each "
        f"of {len(train.tasks)} tasks"
    )


# -- parts ----------------------------------------------------------------------------------------


def _numbers(config: RunConfig) -> Iterator[str]:
    """Check the numbers: with a validation split, each task needs two demonstrations."""
    if config.sft.val_fraction == 0:
        if config.sft.patience is not None:
            yield (
                "sft.patience must be null with sft.val_fraction=0, which leaves no validations to "
                f"count, got {config.sft.patience}"
            )
    elif config.collect.path is None and config.collect.episodes_per_task < 2:
        yield (
            "collect.episodes_per_task must be at least 2 with sft.enabled (one of them is for "
            "validation; sft.val_fraction=0 takes none), "
            f"got {config.collect.episodes_per_task}"
        )


def _supervision(facts: Facts) -> Iterator[str]:
    """Check that env, policy and actor processes support supervised training."""
    config, train, ranks = facts.config, facts.envs["train"], facts.workers["actor"]
    if config.collect.path is None and not train.has_expert:
        yield f"collect.path must name a data set: {train.name} has no scripted expert, got null"
    if facts.policy is not None and facts.policy.sft_objective is None:
        yield f"sft.enabled must be false: {facts.policy.name} has no supervised loss, got true"
    chunk = config.actor.model.num_action_chunks
    if train.whole_chunks and config.collect.stride != chunk:
        yield (
            f"collect.stride must be actor.model.num_action_chunks = {chunk}, as {train.name} "
            f"carries out a chunk as one motion, got {config.collect.stride}"
        )
    apart = ranks > 1 and config.cluster.backend != "local" and facts.needs is not None
    if apart and config.sft.control == OWN_SUCCESSES:
        said = f"sft.control must be demonstrations or null with {ranks} actor processes, got"
        yield f"{said} {OWN_SUCCESSES}"


def _check_output(facts: Facts) -> None:
    """Check that a collection can be begun or continued in `collect.output`.

    Raises:
        ConfigError: `collect.path` is set, or the folder holds something else.
        CheckpointError: the interrupted collection is damaged.
    """
    config = facts.config
    if config.collect.path is not None:
        raise ConfigError(
            f"collect.path must be null: rlcore collect writes to collect.output, and train and "
            f"sft read collect.path, got {config.collect.path!r}",
            hint=f"collect.output={config.collect.path}, and collect.path=null where a recipe has "
            "one",
        )
    place = None if config.collect.output is None else Path(config.collect.output)
    form = format_of(place, config.collect.format)
    if place is not None:
        form.check_folder(place, facts.envs["train"], config.collect, seed=config.runner.seed)


def _check_readable(config: RunConfig, spec: EnvSpec) -> Dataset | None:
    """Check the headers of the data set at `collect.path` and return it; None if there is no path.

    Raises:
        ConfigError: the data set is missing, unfinished, or of another env.
        CheckpointError: the data set is damaged.
    """
    if config.collect.path is None:
        return None
    path = Path(config.collect.path)
    _, form = require_dataset(path, "collect.path")
    _, data = finished(path)
    form.check_folder(path, spec, config.collect, seed=config.runner.seed)
    return data


def _data(facts: Facts) -> Iterator[str]:
    """Check the data set, and that the evaluation visits none of its starts.

    A data set from elsewhere may have been collected at the trials of the evaluation.
    """
    config, envs = facts.config, facts.envs
    place, data = config.collect.path, _check_readable(config, envs["train"])
    if data is None or config.env.eval.allow_training_trials:
        return
    if data.facts.env != envs["eval"].name:
        return
    learned = data.starts()
    shared = [start for start in evaluated_starts(config, envs) if start in learned]
    if shared:
        yield (
            f"env.eval must not visit starts that are among the demonstrations in {place}, got "
            f"{in_short(shared)}; env.eval.allow_training_trials=true evaluates on them anyway"
        )
