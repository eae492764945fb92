"""Write and read `state.json`, a checkpoint's metadata: step, history, files and state of the run.

The state of the run is stored as opaque JSON values, and no other checkpoint is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlcore.contracts.errors import CheckpointError
from rlcore.files.atomic import write_text
from rlcore.files.damaged_files import damaged_error, damaged_on, of_another_version, read_json
from rlcore.files.digests import DIGEST, Extent, digests, sizes, text_digest
from rlcore.files.typed import as_type

FORMAT = "rlcore-checkpoint"
FORMAT_VERSION = 5
STATE = "state.json"
DEPENDS_ON = "stands_on"
"""Key of the run's state: files of the run that the checkpoint depends on, such as the metrics.

The value maps the path of each file in the run's folder to the fields of its
:class:`rlcore.files.digests.Extent` when the checkpoint was written.
"""
OWN_DIGEST = f"{DIGEST}_of_the_rest"
"""Key of `state.json`: the digest of all its other keys."""
KINDS: dict[str, Any] = {
    "step": int,
    "parent": str | None,
    "lineage": list[str],
    "best": str | None,
    "state": dict[str, Any],
    "files": dict[str, int],
    DIGEST: dict[str, str],
    OWN_DIGEST: str,
}
"""Type of the value of each key of `state.json`."""


def write_facts(
    folder: Path,
    step: int,
    state: Mapping[str, Any],
    *,
    parent: str | None = None,
    lineage: Sequence[str] = (),
    best: str | None = None,
) -> None:
    """Write the `state.json` of a checkpoint. All its other files must already be in `folder`.

    Args:
        folder: the checkpoint's folder.
        step: number of policy updates done.
        state: JSON values of the run.
        parent: name of the previous checkpoint; None for the first.
        lineage: names of the checkpoints that are kept, oldest first, this one last.
        best: name of the best checkpoint so far, possibly this one; None if none was marked.
    """
    facts = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "step": step,
        "parent": parent,
        "lineage": list(lineage),
        "best": best,
        "state": dict(state),
        "files": sizes(folder),
        DIGEST: digests(folder),
    }
    (folder / STATE).write_text(_text(facts), encoding="utf-8")


def replace_facts(path: Path, **values: Any) -> None:
    """Replace values of keys in an existing `state.json`, given by its path."""
    write_text(path, _text({**read_facts(path), **values}))


def _text(facts: Mapping[str, Any]) -> str:
    return json.dumps({**facts, OWN_DIGEST: own_digest(facts)}, indent=1)


def read_facts(path: Path) -> dict[str, Any]:
    """Read a `state.json` that :func:`write_facts` wrote, and check its types and its own digest.

    Returns:
        The values by key, without the digest of the file itself.

    Raises:
        CheckpointError: the file is missing or damaged, or was written by another program or
            another version of the format.
    """
    facts = read_json(path)
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise CheckpointError(
            f"{path.parent} is not a checkpoint of rlcore: {path} was written by another program"
        )
    if facts.get("version") != FORMAT_VERSION:
        raise of_another_version(
            path,
            f"has checkpoint format {facts.get('version')}, this version reads {FORMAT_VERSION}",
            f"a new run can begin with its policy: actor.model.model_path={path.parent / 'actor'}",
        )
    with damaged_on(path):
        for name, kind in KINDS.items():
            as_type(kind, facts.get(name), name)
    if facts.pop(OWN_DIGEST) != own_digest(facts):
        raise damaged_error(path, f"its {DIGEST} is not the one it was written with")
    return facts


def dependencies(path: Path, state: Mapping[str, Any]) -> dict[str, Extent]:
    """Return the extents of the run's files that a checkpoint depends on.

    Args:
        path: the checkpoint's `state.json`, named in errors.
        state: the state of the run in that file.

    Returns:
        The size and digest of each file when the checkpoint was written, by path in the run's
        folder.

    Raises:
        CheckpointError: the state lacks these entries or they are malformed.
    """
    with damaged_on(path):
        return {name: Extent(**facts) for name, facts in state[DEPENDS_ON].items()}


def own_digest(facts: Mapping[str, Any]) -> str:
    """Return the digest of JSON values, independent of the order of their keys."""
    return text_digest(json.dumps(facts, sort_keys=True))
