"""Report changes to a run's `config.yaml` since its last attempt, by hand or by a disk fault.

A change may be intended, so it is not an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore.config.differences import differences
from rlcore.config.recipes import read_mapping
from rlcore.config.warning import warn
from rlcore.contracts.errors import ConfigError
from rlcore.utils.text import abbreviate_list, shorten

if TYPE_CHECKING:
    from rlcore.runs.folder import RunFolder

SHOWN = 5  # number of changed keys that the warning names


def warn_of_edits(run: RunFolder) -> None:
    """Warn if a run's configuration differs from the copies in its last two attempts.

    Equality with one of them is enough: a run that was killed while it recorded an attempt still
    has the configuration of the attempt before.

    Raises:
        ConfigError: the configuration can't be read.
    """
    from rlcore.runs import attempts

    current = read_mapping(run.config)
    warning = None
    for attempt in attempts.entered(run.path)[-2:]:
        try:
            recorded = read_mapping(attempt / run.config.name)
        except ConfigError:
            continue  # the copy is missing or damaged, e.g. if the history was copied in part
        changes = [
            f"{change.path} from {shorten(change.values[0], 60)} to {shorten(change.values[1], 60)}"
            for change in differences(recorded, current)
        ]
        if not changes:
            return
        since = attempt.relative_to(run.path).as_posix()
        warning = f"{run.config} was changed since {since}: {abbreviate_list(changes, SHOWN)}"
    if warning is not None:
        warn(warning)
