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
from rlcore.contracts.errors import CheckpointError
from rlcore.demonstrations.datasets import format_of
from rlcore.files.damaged_files import read_json
from rlcore.files.digests import check_seal
from rlcore.plugins.registry import load_plugins

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
    # what a resumed run still reads depends on how far it got: check_start looks at that
    if collects or facts.config.runner.resume_dir is None:
        yield from _data(facts, collects=collects)


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
        path = Path(config.collect.path) if config.collect.path else folder.demonstrations
        spec = assembly.env_specs["train"]
        there = format_of(path, config.collect.format)
        there.check_folder(path, spec, config.collect, seed=config.runner.seed)


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


def _data(facts: Facts, *, collects: bool) -> Iterator[str]:
    """Whether the data can be read or added to; of what is read, whether an evaluation visits its
    starts: it may be collected elsewhere, at other trials."""
    config, envs = facts.config, facts.envs
    place = Path(config.collect.path) if config.collect.path else None
    there = format_of(place, config.collect.format)
    if place is None:
        return
    there.check_folder(place, envs["train"], config.collect, seed=config.runner.seed)
    if collects or config.env.eval.allow_training_trials or not there.holds(place):
        return
    data = there.read(place)
    if data.facts.env != envs["eval"].name:
        return
    learned = data.starts()
    shared = [start for start in evaluated_starts(config, envs) if start in learned]
    if shared:
        yield (
            f"env.eval must not visit starts that are among the demonstrations in {place}, got "
            f"{in_short(shared)}; env.eval.allow_training_trials=true evaluates on them anyway"
        )
