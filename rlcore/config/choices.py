"""Rewrite choices of components into one form: one choice per section. Light.

    env=X                   env/train=X env/eval=X
    - env/train: X          - override /env/train: X
    - env/X@env.train       - override /env/train: X
    - model/Y@actor.model   - override /model: Y

A recipe may write them with or without `override`, a leading slash, or `@section`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlcore.config.bind import SLOTS
from rlcore.config.catalog import COMPONENT_GROUPS
from rlcore.contracts.errors import ConfigError

DEFAULTS = "defaults"
SELF = "_self_"
SIDES_OF = {
    top: [slot.group for slot in SLOTS if slot.kind == kind]
    for top, kind in COMPONENT_GROUPS.items()
}
"""The groups that one choice fills: `{"env": ["env/train", "env/eval"], "model": ["model"]}`."""
GROUP_OF = {slot.section: slot.group for slot in SLOTS}
Choice = tuple[str, Any]
"""(group, option)."""


def choices_by_side(choices: Iterable[str]) -> list[str]:
    """Replace `env=NAME` by `env/train=NAME` and `env/eval=NAME` in `group=option` words.

    A side that is chosen by its own word keeps that choice, in any order of the words.
    """
    pairs = [
        (group, equals + option)
        for group, equals, option in (choice.partition("=") for choice in choices)
    ]
    return [group + rest for group, rest in _by_side(pairs)]


def with_missing_side(choices: Sequence[str], chosen: Mapping[str, str]) -> list[str]:
    """Append the other side's env for a side of env that nothing has chosen.

    Args:
        choices: words of :func:`choices_by_side`.
        chosen: the option of each group after composing `choices`.
    """
    train, evaluation = SIDES_OF["env"]
    more = [
        f"{missing}={chosen[chosen_side]}"
        for missing, chosen_side in ((train, evaluation), (evaluation, train))
        if missing not in chosen and chosen_side in chosen
    ]
    return [*choices, *more]


def normalise_defaults(file: Path | None, group: str, entries: Any) -> list[Any]:
    """Return a defaults list in the form that Hydra gets.

    Included options come first, then an entry `override /GROUP: OPTION` for each section with a
    chosen component. The list of a component's own file is returned unchanged.

    Args:
        file: for error messages.
        group: group of the file.
        entries: value of the file's key `defaults`.

    Raises:
        ConfigError: an entry that can't be read.
    """
    if not isinstance(entries, list):
        raise ConfigError(f"{file}: defaults must be a list, got {entries!r}")
    if not group or group.split("/")[0] in COMPONENT_GROUPS:
        return entries  # the root's groups, or options of the component's own group to extend
    included = []
    chosen: list[Choice] = []
    for entry in entries:
        choice = _component(file, entry)
        if choice is None:
            included.append(entry)
        else:
            chosen.append(choice)
    return [*included, *({f"override /{group}": option} for group, option in _by_side(chosen))]


def included_options(file: Path, group: str, content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (group, option) for each entry of a file's defaults list, except `_self_` and nulls.

    Raises:
        ConfigError: an entry that can't be read.
    """
    for entry in normalise_defaults(file, group, content.get(DEFAULTS, [])):
        if isinstance(entry, str):
            if entry != SELF:
                yield group, entry
        elif isinstance(entry, dict) and len(entry) == 1:
            ((key, option),) = entry.items()
            if not isinstance(option, str) and option is not None:
                key = str(key).removeprefix("override /")
                raise ConfigError(f"{file}: defaults: {key} must name one option, got {option!r}")
            if option is not None:
                yield _bare(str(key)), option
        else:
            raise ConfigError(
                f"{file}: an entry of defaults must be a name or 'override /group: name', "
                f"got {entry!r}"
            )


def is_about_hydra(entry: Any) -> bool:
    """Check whether an entry chooses a plugin of Hydra, which only the command for sweeps uses."""
    return isinstance(entry, dict) and _bare(str(next(iter(entry), ""))).startswith("hydra/")


def _component(file: Path | None, entry: Any) -> Choice | None:
    """Return the component that an entry chooses; None if the entry includes another option.

    Raises:
        ConfigError: the section after `@` is not one of the group.
    """
    if isinstance(entry, str):
        path, _, section = entry.partition("@")
        group, _, option = _bare(path).rpartition("/")
    elif isinstance(entry, dict) and len(entry) == 1:
        ((key, option),) = entry.items()
        group, _, section = _bare(str(key)).partition("@")
    else:
        return None
    if group.split("/")[0] not in COMPONENT_GROUPS:
        return None
    if not section:
        return group, option
    top = group.split("/")[0]
    homes = [home for home, filled in GROUP_OF.items() if filled.split("/")[0] == top]
    if section not in homes:
        raise ConfigError(
            f"{file}: {entry!r}: behind the @ must stand {' or '.join(homes)}, got {section!r}"
        )
    return GROUP_OF[section], option


def _by_side(choices: Sequence[Choice]) -> list[Choice]:
    own = {group for group, _ in choices}
    result: list[Choice] = []
    for group, option in choices:
        sides = SIDES_OF.get(group, [group])
        result += [(side, option) for side in sides if side == group or side not in own]
    return result


def _bare(key: str) -> str:
    return key.removeprefix("override ").strip().removeprefix("/")
