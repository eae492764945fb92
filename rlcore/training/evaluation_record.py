"""Store an evaluation with its checkpoint, so that it can be repeated and compared.

checkpoints/step_000010/
  evaluation.parquet    one row for each episode
  evaluation.json       protocol, seed, render settings and package versions
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlcore.files.atomic import write_text
from rlcore.runs.manifest import versions
from rlcore.runs.state import STATE
from rlcore.runs.tables import EpisodeResult, write_results
from rlcore.training.session import Session, protocol

EPISODES = "evaluation.parquet"
PROTOCOL = "evaluation.json"


def keep(session: Session, folder: Path, results: Sequence[EpisodeResult]) -> None:
    """Store an evaluation with the checkpoint in a folder; warn if the checkpoint is missing."""
    if not (folder / STATE).is_file():
        session.progress.line(
            f"warning: {folder} does not exist, so its evaluation is not stored there"
        )
        return
    write_results(folder / EPISODES, results)
    facts = {**rules_of(session), "versions": versions_of(session)}
    write_text(folder / PROTOCOL, json.dumps(facts, indent=1) + "\n")


def rules_of(session: Session) -> dict[str, Any]:
    """Return what determines the outcome of an evaluation's episodes, besides policy and versions.

    These are the keys `protocol`, `seed` and `render_settings` of `evaluation.json`.
    """
    spec = session.assembly.env_specs["eval"]
    return {
        "protocol": protocol(session.assembly).values,
        "seed": session.config.runner.seed,
        "render_settings": dict(spec.render_settings),
    }


def versions_of(session: Session) -> dict[str, str]:
    """Return the package versions that an evaluation depends on.

    See :func:`rlcore.runs.manifest.versions`.
    """
    return versions(
        [python for python in session.interpreters if python.side in ("eval", "model")],
        {"eval": session.assembly.env_specs["eval"]},
    )
