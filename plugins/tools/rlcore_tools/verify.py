"""Repeat the evaluation that was kept with a checkpoint, and compare episode by episode."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlcore.contracts.errors import CheckpointError, VerificationError
from rlcore.evaluation.evaluate import conclude, evaluate
from rlcore.evaluation.record import EPISODES, PROTOCOL, rules_of, versions_of
from rlcore.files.damaged_files import damaged, read_mapping
from rlcore.results.tables import EpisodeResult, read_results
from rlcore.run_folder.folder import RunFolder
from rlcore.run_folder.manifest import changes
from rlcore.run_folder.protocol_record import describe_difference
from rlcore.session.assembly import Assembly
from rlcore.session.session import open_session, protocol


def run(assembly: Assembly) -> list[EpisodeResult]:
    """`rlcore eval RUN --verify`: play the frozen protocol again with the checkpoint.

    Raises:
        CheckpointError: no evaluation was kept with it.
        VerificationError: the protocol is another one, or episodes came out otherwise.
    """
    policy = assembly.config.actor.model.model_path
    assert policy is not None  # as `rlcore eval RUN` set it
    folder = Path(policy).parent
    kept, then = _read(folder)
    with open_session(assembly, like=RunFolder.containing(folder)) as session:
        now = json.loads(json.dumps(rules_of(session)))
        for key, value in now.items():
            if value != then.get(key):
                raise VerificationError(
                    f"{key} differs from what {folder / PROTOCOL} holds, there and here: "
                    f"{describe_difference({key: then.get(key)}, {key: value})}",
                    hint="verify without overrides, on a machine that renders the same",
                )
        _require_all(folder / EPISODES, kept, protocol(session.assembly).trials)
        results = evaluate(session, "verify")
        conclude(session, {"after": results})
        _compare(kept, results, then["versions"], versions_of(session))
        session.progress.line(f"verified: all {len(kept)} episodes came out as before")
    return results


def _require_all(
    path: Path, kept: Sequence[EpisodeResult], trials: Mapping[str, Sequence[int]]
) -> None:
    """Raise CheckpointError unless each episode of a protocol was kept, once, and no other."""
    played = Counter((row.task, row.trial) for row in kept)
    asked = Counter((task, trial) for task, numbers in trials.items() for trial in numbers)
    if played != asked:
        task, trial = min((played - asked) + (asked - played))
        raise damaged(
            path,
            f"it holds {len(kept)} episodes where its protocol has {asked.total()}: {task} trial "
            f"{trial} is there {played[task, trial]} times instead of {asked[task, trial]}",
        )


def _compare(
    kept: Sequence[EpisodeResult],
    results: Sequence[EpisodeResult],
    then: dict[str, str],
    now: dict[str, str],
) -> None:
    before = {_address(row): row for row in kept}
    other = [row for row in results if row != before[_address(row)]]
    if not other:
        return
    flips = sum(row.success != before[_address(row)].success for row in other)
    changed = ", ".join(changes(then, now)) or "none; another CPU or driver?"
    raise VerificationError(
        f"{len(other)} of {len(kept)} episodes came out differently, in {flips} of them success "
        f"changed, e.g. {other[0].task} trial {other[0].trial}",
        hint=f"versions that changed: {changed}",
    )


def _address(row: EpisodeResult) -> tuple[str, int, int]:
    return row.task, row.trial, row.replica


def _read(folder: Path) -> tuple[list[EpisodeResult], dict[str, Any]]:
    path = folder / PROTOCOL
    if not path.is_file():
        raise CheckpointError(
            f"no evaluation was kept with {folder}",
            hint="a finished run keeps one with its last checkpoint; rlcore eval makes a new one",
        )
    facts = read_mapping(path)
    if not isinstance(facts.get("versions"), dict):
        raise damaged(path, "it does not say with which versions it was made")
    return read_results(folder / EPISODES), facts
