"""Check what collecting and supervised training need, before a run starts. Light.

Core asks for it where demonstrations are collected or learned from, and as such a run is resumed.
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
    """Yield a sentence for each setting that can't be as it is.

    Args:
        collects: whether demonstrations alone are wanted.

    Raises:
        CheckpointError: data that is damaged.
        ConfigError: data of another env, or a begun collection with other settings.
        PluginError: no plugin brings the format.
    """
    if facts.config.sft.enabled:
        yield from _numbers(facts.config)
        yield from _supervision(facts)
    if collects:
        _check_output(facts)
    # what a resumed run still reads depends on how far it got: check_start looks at that
    elif facts.config.runner.resume_dir is None:
        yield from _data(facts)


def check_start(assembly: Assembly, folder: RunFolder) -> None:
    """Check the supervised start of a run that is resumed, and the data that it still needs.

    Raises:
        UserError: the policy, its history or the data is damaged, or of another run or env.
    """
    config, started = assembly.config, folder.sft.is_dir()
    if started:
        model = config.actor.model.beginning_with(folder.sft)
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
    """Refuse a history that is not the one that was logged: a resume may log it once more.

    Args:
        path: of the history; a missing one is not checked here.
        log: the run's `metrics.jsonl`; a garbled one proves nothing.

    Raises:
        CheckpointError: damaged, or of another run.
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
    """Say which demonstrations will be learned from, or made, for `--dry-run`; empty: none, or a
    data set whose fault is among the findings.

    Args:
        collects: whether demonstrations alone are wanted.
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
    """Of every task some demonstrations train; some validate, where any do."""
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
    """Whether env, policy and actors fit it."""
    config, train, ranks = facts.config, facts.envs["train"], facts.workers["actor"]
    if config.collect.path is None and not train.has_expert:
        yield f"collect.path must name a data set: {train.name} has no scripted expert, got null"
    if facts.policy is not None and facts.policy.sft is None:
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
    """Check that a collection can be written: a new one, or the rest of one that was begun.

    Raises:
        ConfigError: a data set to read is named, or the folder holds something else.
        CheckpointError: what was begun is damaged.
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
    """Check the data set that `collect.path` names, from its headers; None: it names none.

    Raises:
        ConfigError: it is not there, not finished, or of another env.
        CheckpointError: it is damaged.
    """
    if config.collect.path is None:
        return None
    path = Path(config.collect.path)
    _, form = require_dataset(path, "collect.path")
    _, data = finished(path)
    form.check_folder(path, spec, config.collect, seed=config.runner.seed)
    return data


def _data(facts: Facts) -> Iterator[str]:
    """Whether the data can be read, and whether an evaluation visits its starts: it may be
    collected elsewhere, at other trials."""
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
