"""Repeat a stored evaluation, of a checkpoint or of `rlcore eval`, and compare each episode."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcore.contracts.errors import CheckpointError, VerificationError
from rlcore.files.damaged_files import damaged_error, damaged_on, read_mapping
from rlcore.runs.folder import RunFolder
from rlcore.runs.manifest import changes
from rlcore.runs.protocol_record import describe_difference
from rlcore.runs.tables import EpisodeResult, read_results
from rlcore.training.assembly import Assembly
from rlcore.training.evaluate import conclude, evaluate
from rlcore.training.evaluation_record import EPISODES, PROTOCOL, rules_of, versions_of
from rlcore.training.session import open_session, protocol

EVAL_EPISODES = "eval.parquet"
"""File of the episodes of `rlcore eval`, in the folder of evaluations."""


@dataclass(frozen=True)
class StoredEvaluation:
    """A stored evaluation that is to be reproduced.

    Attributes:
        file: table of its episodes.
        rules: what must be equal, by the names of
            :func:`rlcore.training.evaluation_record.rules_of`.
        protocol_file: file that holds `rules` and `versions`.
        versions: versions that it was made with.
        run: run that it belongs to.
    """

    file: Path
    rules: Mapping[str, Any]
    protocol_file: Path
    versions: Mapping[str, str]
    run: RunFolder


def run(assembly: Assembly, path: Path) -> list[EpisodeResult]:
    """Run `rlcore eval RUN --verify`: repeat a stored evaluation under the same protocol.

    Args:
        path: folder of a run, or of one of its checkpoints.

    Returns:
        the results of all episodes, equal to the stored ones.

    Raises:
        CheckpointError: no evaluation is stored there, or its files are damaged or incomplete.
        VerificationError: the protocol, seed or render settings differ, or results of episodes do.
    """
    stored = of_evaluation(path)
    if stored is None:
        policy = assembly.config.actor.model.model_path
        assert policy is not None  # as `rlcore eval RUN` set it
        stored = _of_checkpoint(Path(policy).parent)
    rows = read_results(stored.file)
    with open_session(assembly, like=stored.run) as session:
        current = json.loads(json.dumps(rules_of(session)))
        for key, value in stored.rules.items():
            if current[key] != value:
                raise VerificationError(
                    f"{key} differs from {stored.protocol_file}, stored and current: "
                    f"{describe_difference({key: value}, {key: current[key]})}",
                    hint="verify without overrides, on a machine that renders the same",
                )
        _require_all(stored.file, rows, protocol(session.assembly).trials)
        results = evaluate(session, "verify")
        conclude(session, {"after": results})
        _compare(rows, results, stored.versions, versions_of(session))
        session.progress.line(f"verified: all {len(rows)} episodes came out as before")
    return results


def of_evaluation(path: Path) -> StoredEvaluation | None:
    """Return the evaluation that `rlcore eval` made in a folder.

    None for a run with checkpoints, or a folder without such an evaluation.

    Raises:
        CheckpointError: its manifest is damaged.
    """
    run = RunFolder.containing(path)
    file = run.evaluations / EVAL_EPISODES
    if run.checkpoints.exists() or not file.is_file():
        return None
    manifest = read_mapping(run.manifest)
    with damaged_on(run.manifest):
        rules = {"protocol": manifest["evaluation_protocol"], "seed": manifest["seeds"]["root"]}
        return StoredEvaluation(file, rules, run.manifest, dict(manifest["versions"]), run)


def _require_all(
    path: Path, stored: Sequence[EpisodeResult], trials: Mapping[str, Sequence[int]]
) -> None:
    """Raise CheckpointError unless the file has each episode of a protocol once, and no other.

    Args:
        path: file of the episodes, for the message.
        stored: episodes in that file.
        trials: trials of the protocol, by task.
    """
    counts = Counter((row.task, row.trial) for row in stored)
    expected = Counter((task, trial) for task, numbers in trials.items() for trial in numbers)
    if counts != expected:
        task, trial = min((counts - expected) + (expected - counts))
        raise damaged_error(
            path,
            f"it holds {len(stored)} episodes where its protocol has {expected.total()}: {task} "
            f"trial {trial} occurs {counts[task, trial]} times instead of {expected[task, trial]}",
        )


def _compare(
    stored: Sequence[EpisodeResult],
    results: Sequence[EpisodeResult],
    earlier_versions: Mapping[str, str],
    current_versions: Mapping[str, str],
) -> None:
    stored_rows = {_address(row): row for row in stored}
    differing = [row for row in results if row != stored_rows[_address(row)]]
    if not differing:
        return
    flips = sum(row.success != stored_rows[_address(row)].success for row in differing)
    changed = (
        ", ".join(changes(earlier_versions, current_versions))
        or "none; another CPU, driver or server?"
    )
    raise VerificationError(
        f"{len(differing)} of {len(stored)} episodes came out differently, in {flips} of them "
        f"success changed, e.g. {differing[0].task} trial {differing[0].trial}",
        hint=f"versions that changed: {changed}",
    )


def _address(row: EpisodeResult) -> tuple[str, int, int]:
    return row.task, row.trial, row.replica


def _of_checkpoint(folder: Path) -> StoredEvaluation:
    protocol_file = folder / PROTOCOL
    if not protocol_file.is_file():
        raise CheckpointError(
            f"no evaluation is stored with {folder}",
            hint="a finished run stores one with its last checkpoint, or with the one that it "
            "chose on validation starts (checkpoints/best names it); rlcore eval makes a new one",
        )
    facts = read_mapping(protocol_file)
    versions = facts.get("versions")
    if not isinstance(versions, dict):
        raise damaged_error(protocol_file, "it does not say with which versions it was made")
    rules = {key: facts.get(key) for key in ("protocol", "seed", "render_settings")}
    return StoredEvaluation(
        folder / EPISODES, rules, protocol_file, versions, RunFolder.containing(folder)
    )
