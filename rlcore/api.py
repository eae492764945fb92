"""Use rlcore from Python: compose a configuration, open a run, load its policy, play an episode.

The public interface for commands and tools of other distributions. Importing it loads neither torch
nor Ray; a function that needs one of them loads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rlcore.config.schema import RunConfig
from rlcore.plugins.registry import Registry, load_plugins

if TYPE_CHECKING:
    from rlcore.contracts.episodes import Footage
    from rlcore.contracts.protocols import Policy
    from rlcore.contracts.specs import EnvSpec, Episode
    from rlcore.results.tables import EpisodeResult
    from rlcore.rollout.messages import Trace as Trace
    from rlcore.run_folder.checkpoint import Checkpoint as Checkpoint
    from rlcore.run_folder.checkpoint import writing as writing
    from rlcore.run_folder.folder import RunFolder
    from rlcore.session.assembly import Assembly as Assembly

_HOMES = {
    "Assembly": "rlcore.session.assembly",
    "Checkpoint": "rlcore.run_folder.checkpoint",
    "Trace": "rlcore.rollout.messages",
    "writing": "rlcore.run_folder.checkpoint",
}
Phase = Literal["eval", "train"]
NEEDED_TO_ACT = ("env", "model")


def __getattr__(name: str) -> Any:
    """Load names of heavier modules on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def compose(
    *words: str,
    config_dirs: Sequence[str | Path] = (),
    require: Sequence[str] = (),
    draft: bool = False,
) -> RunConfig:
    """Compose the frozen configuration from words of a command line.

    Args:
        words: `experiment=NAME`, `group=option` and `key=value`.
        config_dirs: further folders of groups.
        require: groups of which a component must be chosen ("env", "model", "algorithm").
        draft: leave keys that must be given and are not at their defaults.

    Raises:
        ConfigError: an unknown key or option, a wrong type, a component that is not chosen.
        PluginError: a component that is not installed, or is broken.
    """
    from rlcore.config.compose import compose

    return compose(words, config_dirs=config_dirs, require=require, draft=draft)


@dataclass(frozen=True)
class KeptEvaluation:
    """An evaluation stored in a run's folder: its episodes, and the rules they were played
    under."""

    episodes: list[EpisodeResult]
    protocol: Mapping[str, Any]


@dataclass(frozen=True)
class SavedRun:
    """A run's folder, to be read. See :func:`open_run`.

    Attributes:
        folder: where each of its files is.
        named: the path that it was opened by, which may be one of its checkpoints.
    """

    folder: RunFolder
    named: Path

    def config(
        self, *overrides: str, require: Sequence[str] = (), trust: bool = False
    ) -> RunConfig:
        """Its configuration, with changes.

        Args:
            overrides: `key=value`.
            require: groups of which it must name a component.
            trust: allow keys that run code of whoever made the folder.

        Raises:
            ConfigError: the file is damaged, does not fit the installed plugins, or is not trusted.
        """
        from rlcore.config.compose import load

        return load(self.folder.config, overrides, require=require, trust=trust)

    def checkpoint(self, name: str | None = None) -> Checkpoint:
        """One of its checkpoints, checked.

        Args:
            name: `step_000010`, `best` or `latest`; None: the one it was opened by, or the latest.

        Raises:
            CheckpointError: it is missing or damaged.
        """
        from rlcore.run_folder.checkpoint import load_checkpoint, named_checkpoint

        found = self.named if name is None else named_checkpoint(self.folder.checkpoints, name)
        return load_checkpoint(found)

    def config_to_evaluate(
        self, checkpoint: Checkpoint, *overrides: str, trust: bool = False
    ) -> RunConfig:
        """Its configuration with a checkpoint as the model, to play and not to train."""
        from rlcore.cli.eval import of_checkpoint

        return of_checkpoint(checkpoint, overrides, trust=trust)

    def metrics(self) -> list[dict[str, float | None]]:
        """The lines of `metrics.jsonl`; none if it is not there.

        Raises:
            CheckpointError: it is damaged.
        """
        from rlcore.files.damaged_files import blaming
        from rlcore.run_folder.trackers import read_metrics

        path = self.folder.metrics
        if not path.exists():
            return []
        with blaming(path):
            return read_metrics(path)

    def evaluations(self) -> dict[str, KeptEvaluation]:
        """Its evaluations by label: "before", "after", "step_000010", ...

        Raises:
            CheckpointError: a file is damaged, or leads out of the folder.
        """
        from rlcore.files.atomic import is_partial
        from rlcore.files.damaged_files import damaged
        from rlcore.files.symlinks import require_inside
        from rlcore.results.parquet import read_note
        from rlcore.results.tables import read_results

        folder = self.folder.evaluations
        require_inside(self.folder.path, (folder, *folder.glob("*")))
        found = {}
        for path in sorted(folder.glob("*.parquet")):
            if not is_partial(path.name):
                rules = read_note(path).get("protocol", {})
                if not isinstance(rules, Mapping):
                    raise damaged(path, f"its protocol can't be {rules!r}")
                found[path.stem] = KeptEvaluation(read_results(path), rules)
        return found

    def evaluated(self, checkpoint: Checkpoint) -> list[EpisodeResult]:
        """The evaluation of a checkpoint: the one kept with it, or one made between updates; empty
        if there is none."""
        from rlcore.evaluation.verify import EPISODES
        from rlcore.results.tables import read_results

        between = self.folder.evaluations / f"{checkpoint.path.name}.parquet"
        for path in (checkpoint.path / EPISODES, between):
            if path.is_file():
                return read_results(path)
        return []


def open_run(path: str | Path) -> SavedRun:
    """Open the run in a folder, or the run that a checkpoint belongs to.

    Raises:
        CheckpointError: there is none.
    """
    from rlcore.run_folder.folder import RunFolder

    return SavedRun(RunFolder.containing(path), Path(path).expanduser().absolute())


def protocol_difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Describe briefly how the rules of two evaluations differ; empty if they don't."""
    from rlcore.run_folder.protocol_record import describe_difference

    return describe_difference(one, other)


def check_model(config: RunConfig, registry: Registry | None = None) -> None:
    """Check that `actor.model` fits its files and its envs; build nothing.

    Raises:
        UserError: it can't be loaded, or can't act in these envs.
    """
    from rlcore.checks.facts import gather_facts

    gather_facts(config, registry or load_plugins())


def load_policy(config: RunConfig, registry: Registry | None = None) -> tuple[Policy, EnvSpec]:
    """Build the policy of `actor.model` in this process, with what of the algorithm acts; return it
    with its env's spec.

    Raises:
        UserError: see :func:`check_model`.
    """
    from rlcore.checks.facts import gather_facts
    from rlcore.config.component_specs import algorithm_needs
    from rlcore.plugins.import_target import load_target

    registry = registry or load_plugins()
    facts = gather_facts(config, registry)
    model, env, named = config.actor.model, facts.policy_env, config.algorithm.name
    policy = load_target(registry.get("model", model.model_type).spec.target)(model, env_spec=env)
    if named and algorithm_needs(config, registry).acting:
        from rlcore.learner.acting import together

        algorithm = load_target(registry.get("algorithm", named).spec.target)(config.algorithm)
        seed, folder = config.runner.seed, model.model_path
        policy = together(policy, algorithm, env, named=named, seed=seed, folder=folder)
    return policy, env


def restore_trained(policy: Policy, checkpoint: Checkpoint) -> None:
    """Load the trained parameters that a checkpoint stores for its learner into a policy.

    Raises:
        CheckpointError: they are damaged, or not this policy's.
    """
    from rlcore.learner import trained_parameters
    from rlcore.run_folder.learner_state import read_learner

    trained_parameters.restore(policy.parameter_groups(), read_learner(checkpoint.path)["tensors"])


def save_policy(policy: Policy, env_spec: EnvSpec, folder: Path) -> None:
    """Write a policy and the spec of its env; `actor.model.model_path` reads it."""
    from rlcore.run_folder.env_facts import write_env_facts

    policy.save_pretrained(folder)
    write_env_facts(folder, env_spec)


@dataclass(frozen=True)
class Played:
    """An episode, and everything exchanged between env and policy.

    Attributes:
        result: what came of it.
        trace: observations, actions, log-probs, values and rewards, decision by decision.
        footage: every simulated frame.
        deterministic: without exploration noise.
        incidents: worker failures that were recovered from.
        versions: of all that played it.
    """

    result: EpisodeResult
    trace: Trace
    footage: Footage
    deterministic: bool
    incidents: Sequence[str]
    versions: Mapping[str, str]


def play_episode(
    assembly: Assembly, episode: Episode, checkpoint: Checkpoint, *, phase: Phase = "eval"
) -> Played:
    """Play one episode of a run again, with the same noise.

    Args:
        assembly: of :meth:`SavedRun.config_to_evaluate`, as a command's loop gets it.
        episode: which.
        checkpoint: the weights that play it.
        phase: "eval": as an evaluation; "train": on `env.train` and with exploration noise, as in
            the rollout after the checkpoint.

    Raises:
        UserError: a worker failed.
    """
    from rlcore.evaluation.evaluate import EVAL_UPDATE
    from rlcore.numerics.record import computed
    from rlcore.results.tables import from_outcomes
    from rlcore.rollout.messages import GatherOrder
    from rlcore.rollout.schedule import Column
    from rlcore.run_folder.manifest import versions
    from rlcore.session.gather import gather
    from rlcore.session.session import STOCHASTIC, protocol, sampling
    from rlcore.workers.backend import make_group

    evaluates, rollout = phase == "eval", assembly.config.rollout
    order = GatherOrder(
        side=phase,
        columns=[Column(0, (episode,))],
        phase=phase,
        update=EVAL_UPDATE if evaluates else checkpoint.step,
        deterministic=evaluates and rollout.eval_deterministic,
        temperature=rollout.eval_temperature if evaluates else None,
        keep=False,
        record=frozenset([0]),
        trace=frozenset([0]),
    )
    before = computed(open_run(checkpoint.path).folder.manifest)
    worker_specs = replace(assembly.worker_specs, begun=None if before is None else before.kernels)
    with make_group(worker_specs) as group:
        group.start()
        gathered = gather(group, assembly, order)
    words = sampling(assembly.config) if evaluates else STOCHASTIC
    rules = protocol(assembly).digest if evaluates else ""
    (result,) = from_outcomes(gathered.outcomes, assembly.env_specs[phase].tasks, words, rules)
    return Played(
        result=result,
        trace=gathered.traces[0],
        footage=gathered.videos[0],
        deterministic=order.deterministic,
        incidents=gathered.incidents,
        versions=versions(assembly.interpreters(), assembly.played_specs),
    )
