"""Choose the policy's instructions: the env's own, or a file's (`env.*.sentences`). Light.

    own                the env's
    checkpoint         those the checkpoint was trained on: in its folder, beside it, then
    lerobot            in an installed LeRobot, which has those of its data sets for some envs
    FILE, FILE:KEY     a file's

A file is read when a configuration is composed, and its sentences are stored in the configuration:
the run does not need the file again. Sentences belong to tasks by name, never by number, as data
sets number tasks differently than envs do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rlcore.config.old_names import warn
from rlcore.config.schema.env import CHECKPOINT, LEROBOT, OWN
from rlcore.contracts.errors import ConfigError, did_you_mean
from rlcore.contracts.specs import EnvSpec
from rlcore.files import reading
from rlcore.terminal.text import some

LOOKED_FOR = (CHECKPOINT, LEROBOT)
RECORDED = "rlcore_env.json"  # in the folder of a policy, what rlcore says of the env it was for
KINDS = (".yaml", ".yml", ".json")
TABLES = (".jsonl", ".parquet")  # of a data set's tasks: they number sentences
WRITE = (
    "write a file NAME.yaml with a line 'TASK: sentence' for each task of the env, and give that"
)


class UnlistedInstruction(ConfigError):
    """Raised for a file of sentences that does not map them to tasks."""


def resolve(
    value: Any, path: str, env: str = "", checkpoint: str | None = None
) -> str | dict[str, str]:
    """Return `own`, or the sentence of each task; `checkpoint` or `lerobot` where none was found.

    Args:
        value: of the key: one of these words, a file, or a mapping.
        path: of the key, for errors.
        env: its type.
        checkpoint: folder of the policy; None: its weights are random, and any sentences will do.

    Raises:
        ConfigError: something else, or a file that does not say which sentence is which task's.
    """
    if value == OWN or (value == CHECKPOINT and checkpoint is None):
        return OWN
    if value in LOOKED_FOR:
        return _found(value, path, env, checkpoint) or str(value)
    if isinstance(value, Mapping):
        return _checked(value, path, "it")
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(
            f"{path} must be {OWN} (the env's sentences), {CHECKPOINT}, {LEROBOT} or a file of "
            f"sentences, got {value!r}",
            hint=f"rlcore train --help {path}",
        )
    return _of_file(value, path)


def _of_file(value: str, path: str) -> dict[str, str]:
    try:
        return _checked(_read(*_file_and_part(value, path)), path, value)
    except (OSError, ValueError) as error:
        reason = reading.reason_of(error)
        raise ConfigError(
            f"{path}: the sentences in {value!r} can't be read: {reason}",
            hint=f"{path}={OWN} for the env's sentences; rlcore train --help {path}",
        ) from None


def with_instructions(spec: EnvSpec, sentences: str | Mapping[str, str], path: str) -> EnvSpec:
    """The spec of an env whose policy gets these sentences.

    Raises:
        ConfigError: a task without one, or an env that has other sentences in each episode.
    """
    if isinstance(sentences, str):
        return spec
    if spec.sentences or spec.open_sentences:
        raise ConfigError(
            f"{path}.sentences must be {OWN}: the sentences of {spec.name} differ from episode to "
            f"episode of a task, but a file has one per task, got a file of {len(sentences)}"
        )
    missing = [task for task in spec.tasks if task not in sentences]
    if missing:
        known = ", ".join(list(sentences)[:5]) + (", ..." if len(sentences) > 5 else "")
        raise ConfigError(
            f"{path}.sentences has none for task {some([*map(repr, missing)], 1)} of {spec.name}; "
            f"it has those of {known}.{did_you_mean(missing[0], sentences)}",
            hint=f"a line '{missing[0]}: sentence' in the file, or fewer tasks: {path}.tasks",
        )
    return replace(spec, descriptions=tuple(sentences[task] for task in spec.tasks))


def shared(spec: EnvSpec) -> Iterator[tuple[str, list[str]]]:
    """Return (sentence, tasks) for sentences of several tasks: a policy can't distinguish these
    tasks."""
    for sentence, count in Counter(spec.descriptions).items():
        if count > 1:
            pairs = zip(spec.tasks, spec.descriptions, strict=True)
            yield sentence, [task for task, its in pairs if its == sentence]


# -- where sentences are looked for -------------------------------------------------------------


def places(value: str, env: str, checkpoint: str | None) -> dict[str, list[str]]:
    """Files, as the key takes them, that may say what a checkpoint learned from, by where they are.

    Args:
        value: `checkpoint` or `lerobot`.
        env, checkpoint: see :func:`resolve`.
    """
    lerobots = f"{env}_config.json:TASK_DESCRIPTIONS"
    found: dict[str, list[str]] = {}
    if value == CHECKPOINT and checkpoint is not None:
        names = (f"{RECORDED}:sentences", lerobots)
        folder = Path(checkpoint)
        for where, place in (("the checkpoint", folder), ("beside it", folder.parent)):
            found[f"{where}, {place}"] = [str(place / name) for name in names]
    spec = find_spec(LEROBOT)  # imports nothing of it
    found[LEROBOT if spec else f"{LEROBOT}, not installed"] = [
        str(Path(place) / "envs" / lerobots)
        for place in (spec and spec.submodule_search_locations) or ()
    ]
    return found


def _found(value: str, path: str, env: str, checkpoint: str | None) -> dict[str, str] | None:
    """The sentences in the first of these files that says which task has which; None: in none."""
    for place in [each for group in places(value, env, checkpoint).values() for each in group]:
        if _file_and_part(place, path)[0].is_file():
            with suppress(UnlistedInstruction):
                said = _of_file(place, path)
                warn(f"the policy gets the sentences of {place}")
                return said
    return None


# -- files --------------------------------------------------------------------------------------


def _file_and_part(value: str, path: str) -> tuple[Path, str]:
    """FILE, or FILE:PART where no file is called so."""
    whole = Path(value).expanduser().absolute()
    name, colon, part = value.rpartition(":")
    if whole.exists() or not colon or not name:
        file, part = whole, ""
    else:
        file = Path(name).expanduser().absolute()
    if file.is_dir():
        raise ConfigError(
            f"{path} must be {OWN} or a file of sentences, got the folder {value!r}", hint=WRITE
        )
    if file.suffix in TABLES:
        raise ConfigError(
            f"{path}: the table {value!r} of a data set numbers its sentences and does not say of "
            "which task each one is; envs and data sets count tasks in different orders",
            hint=WRITE,
        )
    if file.suffix not in KINDS:
        raise ConfigError(
            f"{path} must be {OWN} or a file that ends in {', '.join(KINDS)}, got {value!r}",
            hint=f"rlcore train --help {path}",
        )
    return file, part


def _read(file: Path, part: str) -> Mapping[Any, Any]:
    read = reading.read_json if file.suffix == ".json" else reading.read_yaml
    found = read(file, once=True)
    if part:
        if not isinstance(found, Mapping) or part not in found:
            known = ", ".join(map(str, found)) if isinstance(found, Mapping) else "no keys"
            raise reading.Unreadable(f"it has no {part!r}, it has {known}")
        found = found[part]
    if not isinstance(found, Mapping):
        raise reading.Unreadable("it must hold a mapping of task to sentence")
    inner = [str(key) for key, value in found.items() if isinstance(value, Mapping)]
    if inner:
        raise reading.Unreadable(
            f"it holds mappings in a mapping ({', '.join(inner)}); say which one is meant: "
            f"{file.name}:{inner[0]}"
        )
    return found


def _checked(found: Mapping[Any, Any], path: str, where: str) -> dict[str, str]:
    """Names and words, or one error. A text with `${` would be read as the value of another key."""
    if not found:
        raise UnlistedInstruction(f"{path} must have a sentence for each task, {where} has none")
    for task, sentence in found.items():
        good = isinstance(sentence, str) and sentence.strip() and "${" not in sentence
        if not isinstance(task, str) or not task or not good:
            raise ConfigError(
                f"{path}: the sentence of task {task!r} must be words, got {sentence!r}",
                hint=f"TASK: sentence, in {where}" if where != "it" else None,
            )
    return dict(found)
