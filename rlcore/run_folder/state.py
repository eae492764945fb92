"""Write and read `state.json`, a checkpoint's metadata: its step, its files, what it came after.

Knows nothing of what the run saves in it, nor of the checkpoints beside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlcore.contracts.errors import CheckpointError
from rlcore.files.atomic import write_text
from rlcore.files.damaged_files import blaming, damaged, of_another_version, read_json
from rlcore.files.digests import DIGEST, Extent, digests, sizes, text_digest

FORMAT = "rlcore-checkpoint"
FORMAT_VERSION = 5
STATE = "state.json"
DEPENDS_ON = "stands_on"
"""Key of the run's own state: files beside the checkpoints that go with it, and how they began."""
OWN_DIGEST = f"{DIGEST}_of_the_rest"
"""Key of `state.json`: the digest of all its other keys."""


def write_facts(
    folder: Path,
    step: int,
    state: Mapping[str, Any],
    *,
    parent: str | None = None,
    lineage: Sequence[str] = (),
    best: str | None = None,
) -> None:
    """Write `state.json` of a checkpoint whose other files are all in `folder`.

    Args:
        step: policy updates done.
        state: JSON values of the run.
        parent: name of the checkpoint that it came after.
        lineage: names of those that stay, oldest first, its own the last.
        best: name of the best so far, which may be its own.
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


def write_state(path: Path, state: Mapping[str, Any]) -> None:
    """Replace the run's own state in the `state.json` of a checkpoint that is there."""
    write_text(path, _text({**read_facts(path), "state": dict(state)}))


def _text(facts: Mapping[str, Any]) -> str:
    return json.dumps({**facts, OWN_DIGEST: own_digest(facts)}, indent=1)


def read_facts(path: Path) -> dict[str, Any]:
    """What :func:`write_facts` wrote into the file `path`, its types checked.

    Raises:
        CheckpointError: missing, damaged, another's or of another version.
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
    for name, kinds, words in (
        ("step", (int,), "a whole number"),
        ("parent", (str, type(None)), "a name or null"),
        ("lineage", (list,), "a list"),
        ("best", (str, type(None)), "a name or null"),
        ("state", (dict,), "a mapping"),
        ("files", (dict,), "a mapping"),
        (DIGEST, (dict,), "a mapping"),
        (OWN_DIGEST, (str,), "a text"),
    ):
        if type(facts.get(name)) not in kinds:
            raise damaged(path, f"{name} must be {words}, got {facts.get(name)!r}")
    if facts.pop(OWN_DIGEST) != own_digest(facts):
        raise damaged(path, f"its {DIGEST} is not the one it was written with")
    return facts


def dependencies(path: Path, state: Mapping[str, Any]) -> dict[str, Extent]:
    """How the files of the run began that a checkpoint stands on, by their paths in its folder.

    Args:
        path: its `state.json`, for errors.
        state: the run's own, out of it.

    Raises:
        CheckpointError: it does not say so.
    """
    with blaming(path):
        return {name: Extent(**facts) for name, facts in state[DEPENDS_ON].items()}


def own_digest(facts: Mapping[str, Any]) -> str:
    """Digest of JSON values, whatever the order of their keys."""
    return text_digest(json.dumps(facts, sort_keys=True))
