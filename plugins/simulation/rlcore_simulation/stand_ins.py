"""Find stand-ins: code of another distribution that replaces a simulator, or its assets.

A distribution registers it as an entry point, named after the env and read only if settings ask for
it:

    [project.entry-points."rlcore.stand_ins"]
    sliding = "package.module:attribute"
"""

from __future__ import annotations

from importlib import metadata

from rlcore.contracts.errors import MissingPackageError
from rlcore.plugins.extras import pip_install

GROUP = "rlcore.stand_ins"
INSTALL = pip_install('"rlcore[stand-ins]"') + ", or in a clone: bash requirements/install.sh"


def stand_in(env: str) -> str:
    """Return the `"module:attribute"` that is registered as the stand-in of an env.

    Raises:
        MissingPackageError: none is installed.
    """
    for point in metadata.entry_points(group=GROUP, name=env):
        return point.value
    raise MissingPackageError(
        f"stand_ins=true of env {env!r} needs the distribution rlcore-stand-ins, not installed",
        hint=INSTALL,
    )
