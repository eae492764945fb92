"""Choose the policy's instructions: the env's, or those of a file (`env.*.sentences`). Light.

    own                the env's instructions
    checkpoint         those that the checkpoint was trained on, searched for in its folder, in the
                       parent of that folder, and then as for lerobot
    lerobot            those in an installed LeRobot, which has them for the data sets of some envs
    FILE, FILE:KEY     those in a file

A file is read when a configuration is composed, and its instructions are stored in the
configuration, so the run does not need the file again. Instructions are assigned to tasks by name,
never by number, as data sets and envs number tasks differently.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rlcore.config.schema.env import CHECKPOINT, LEROBOT, OWN_INSTRUCTIONS
from rlcore.config.warning import warn
from rlcore.contracts.errors import ConfigError, did_you_mean
from rlcore.contracts.specs import EnvSpec
from rlcore.files import reading
from rlcore.utils.text import abbreviate_list

LOOKED_FOR = (CHECKPOINT, LEROBOT)
RECORDED = "rlcore_env.json"  # in a policy's folder: describes the env it was trained on
KINDS = (".yaml", ".yml", ".json")
TABLES = (".jsonl", ".parquet")  # of a data set: these have numbers in place of task names
WRITE = (
    "write a file NAME.yaml with a line 'TASK: sentence' for each task of the env, and give that"
)


class UnlistedInstruction(ConfigError):
    """Raised for a file that has no instructions: its mapping of tasks is empty."""


def resolve(
    value: Any, path: str, env: str = "", checkpoint: str | None = None
) -> str | dict[str, str]:
    """Resolve the value of `env.*.sentences`.

    Args:
        value: "own", "checkpoint", "lerobot", a file, or a mapping from task to instruction.
        path: path of the key, for error messages.
        env: type of the env (`env_type`).
        checkpoint: folder of the policy; None: its weights are random, so "checkpoint" means "own".

    Returns:
        "own", or the instruction of each task; or "checkpoint" or "lerobot", as given, if no
        instructions were found.

    Raises:
        ConfigError: any other value, or a file that does not map tasks to instructions.
    """
    if value == OWN_INSTRUCTIONS or (value == CHECKPOINT and checkpoint is None):
        return OWN_INSTRUCTIONS
    if value in LOOKED_FOR:
        return _found(value, path, env, checkpoint) or str(value)
    if isinstance(value, Mapping):
        return _checked(value, path, "it")
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(
            f"{path} must be {OWN_INSTRUCTIONS} (the env's sentences), {CHECKPOINT}, {LEROBOT} or "
            f"a file of "
            f"sentences, got {value!r}",
            hint=f"rlcore train --help {path}",
        )
    return _of_file(value, path)


def _of_file(value: str, path: str) -> dict[str, str]:
    try:
        return _checked(_read(*_file_and_part(value, path)), path, value)
    except (OSError, ValueError) as error:
        reason = reading.error_reason(error)
        raise ConfigError(
            f"{path}: the sentences in {value!r} can't be read: {reason}",
            hint=f"{path}={OWN_INSTRUCTIONS} for the env's sentences; rlcore train --help {path}",
        ) from None


def with_instructions(spec: EnvSpec, sentences: str | Mapping[str, str], path: str) -> EnvSpec:
    """Return the spec with these instructions as its `instructions`.

    Args:
        sentences: instruction of each task; a string (see :func:`resolve`): `spec` is unchanged.
        path: path of the env's section, for error messages.

    Raises:
        ConfigError: a task without an instruction, or an env whose instructions vary by episode.
    """
    if isinstance(sentences, str):
        return spec
    if spec.episode_instructions or spec.open_instructions:
        raise ConfigError(
            f"{path}.sentences must be {OWN_INSTRUCTIONS}: the sentences of {spec.name} differ "
            f"from episode to "
            f"episode of a task, but a file has one per task, got a file of {len(sentences)}"
        )
    missing = [task for task in spec.tasks if task not in sentences]
    if missing:
        listed = ", ".join(list(sentences)[:5]) + (", ..." if len(sentences) > 5 else "")
        raise ConfigError(
            f"{path}.sentences has none for task {abbreviate_list([*map(repr, missing)], 1)} of "
            f"{spec.name}; "
            f"it has those of {listed}.{did_you_mean(missing[0], sentences)}",
            hint=f"a line '{missing[0]}: sentence' in the file, or fewer tasks: {path}.tasks",
        )
    return replace(spec, instructions=tuple(sentences[task] for task in spec.tasks))


def shared(spec: EnvSpec) -> Iterator[tuple[str, list[str]]]:
    """Yield (instruction, tasks) for each instruction that several tasks have in common.

    A policy can't distinguish these tasks.
    """
    for sentence, count in Counter(spec.instructions).items():
        if count > 1:
            pairs = zip(spec.tasks, spec.instructions, strict=True)
            yield sentence, [task for task, instruction in pairs if instruction == sentence]


# -- where sentences are looked for -------------------------------------------------------------


def places(value: str, env: str, checkpoint: str | None) -> dict[str, list[str]]:
    """Return the files that may hold the instructions a checkpoint was trained on.

    Args:
        value: "checkpoint" or "lerobot".
        env, checkpoint: see :func:`resolve`.

    Returns:
        Lists of FILE:KEY, which may not exist, by a description of their place, in search order.
    """
    lerobots = f"{env}_config.json:TASK_DESCRIPTIONS"
    files: dict[str, list[str]] = {}
    if value == CHECKPOINT and checkpoint is not None:
        names = (f"{RECORDED}:sentences", lerobots)
        folder = Path(checkpoint)
        for where, place in (("the checkpoint", folder), ("beside it", folder.parent)):
            files[f"{where}, {place}"] = [str(place / name) for name in names]
    spec = find_spec(LEROBOT)  # does not import the package
    files[LEROBOT if spec else f"{LEROBOT}, not installed"] = [
        str(Path(place) / "envs" / lerobots)
        for place in (spec and spec.submodule_search_locations) or ()
    ]
    return files


def _found(value: str, path: str, env: str, checkpoint: str | None) -> dict[str, str] | None:
    """Return the instructions of the first file in :func:`places` that has any; None: none has."""
    for place in [file for group in places(value, env, checkpoint).values() for file in group]:
        if _file_and_part(place, path)[0].is_file():
            with suppress(UnlistedInstruction):
                instructions = _of_file(place, path)
                warn(f"the policy gets the sentences of {place}")
                return instructions
    return None


# -- files --------------------------------------------------------------------------------------


def _file_and_part(value: str, path: str) -> tuple[Path, str]:
    """Split FILE:PART, unless a file has this whole name; PART is "" if there is none.

    Raises:
        ConfigError: the file is a folder, the task table of a data set, or of an unknown type.
    """
    whole = Path(value).expanduser().absolute()
    name, colon, part = value.rpartition(":")
    if whole.exists() or not colon or not name:
        file = whole
        part = ""
    else:
        file = Path(name).expanduser().absolute()
    if file.is_dir():
        raise ConfigError(
            f"{path} must be {OWN_INSTRUCTIONS} or a file of sentences, got the folder {value!r}",
            hint=WRITE,
        )
    if file.suffix in TABLES:
        raise ConfigError(
            f"{path}: the table {value!r} of a data set numbers its sentences and does not say of "
            "which task each one is; envs and data sets count tasks in different orders",
            hint=WRITE,
        )
    if file.suffix not in KINDS:
        raise ConfigError(
            f"{path} must be {OWN_INSTRUCTIONS} or a file that ends in {', '.join(KINDS)}, got "
            f"{value!r}",
            hint=f"rlcore train --help {path}",
        )
    return file, part


def _read(file: Path, part: str) -> Mapping[Any, Any]:
    read = reading.read_json if file.suffix == ".json" else reading.read_yaml
    content = read(file, once=True)
    if part:
        if not isinstance(content, Mapping) or part not in content:
            names = ", ".join(map(str, content)) if isinstance(content, Mapping) else "no keys"
            raise reading.UnreadableError(f"it has no {part!r}, it has {names}")
        content = content[part]
    if not isinstance(content, Mapping):
        raise reading.UnreadableError("it must hold a mapping of task to sentence")
    inner = [str(key) for key, value in content.items() if isinstance(value, Mapping)]
    if inner:
        raise reading.UnreadableError(
            f"it holds mappings in a mapping ({', '.join(inner)}); say which one is meant: "
            f"{file.name}:{inner[0]}"
        )
    return content


def _checked(instructions: Mapping[Any, Any], path: str, where: str) -> dict[str, str]:
    """Return the instructions by task, if all of them are non-empty text.

    An instruction may not contain `${`, which the configuration would read as an interpolation.

    Raises:
        UnlistedInstruction: there are no instructions.
        ConfigError: a task or an instruction that is empty or not text, or an instruction with
            `${`.
    """
    if not instructions:
        raise UnlistedInstruction(f"{path} must have a sentence for each task, {where} has none")
    for task, sentence in instructions.items():
        good = isinstance(sentence, str) and sentence.strip() and "${" not in sentence
        if not isinstance(task, str) or not task or not good:
            raise ConfigError(
                f"{path}: the sentence of task {task!r} must be words, got {sentence!r}",
                hint=f"TASK: sentence, in {where}" if where != "it" else None,
            )
    return dict(instructions)
