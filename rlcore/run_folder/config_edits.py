"""Report changes to a run's `config.yaml` since its last attempt, by hand or by a disk fault.

That may be on purpose, so it is not an error. Knows nothing of what the keys mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore.config.differences import differences
from rlcore.config.old_names import warn
from rlcore.config.recipes import read_mapping
from rlcore.contracts.errors import ConfigError
from rlcore.terminal.text import short, some

if TYPE_CHECKING:
    from rlcore.run_folder.folder import RunFolder

SHOWN = 5  # keys that the warning names


def warn_of_edits(run: RunFolder) -> None:
    """Warn if a run's configuration differs from the one that its last attempt stored.

    A run that was killed while it entered an attempt still has the configuration of the one
    before, so that one counts too.

    Raises:
        ConfigError: the configuration can't be read.
    """
    from rlcore.run_folder import attempts

    now = read_mapping(run.config)
    found: list[str] = []
    for attempt in reversed(attempts.entered(run.path)[-2:]):
        try:
            then = read_mapping(attempt / run.config.name)
        except ConfigError:
            continue  # of a history that was copied in part, or is damaged itself
        changes = [
            f"{each.path} from {short(each.values[0], 60)} to {short(each.values[1], 60)}"
            for each in differences(then, now)
        ]
        if not changes:
            return
        since = attempt.relative_to(run.path).as_posix()
        found.append(f"{run.config} was changed since {since}: {some(changes, SHOWN)}")
    for warning in found[:1]:
        warn(warning)
