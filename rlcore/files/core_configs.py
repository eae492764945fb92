"""Find the configuration files that rlcore ships with its code. Light."""

from __future__ import annotations

from pathlib import Path

PRIMARY = "train"
"""Name of the root file."""


def core_configs() -> Path:
    """Return the folder of the configuration files.

    In a checkout it is next to the package; in a wheel it is inside the package.
    """
    package = Path(__file__).parents[1]
    checkout = package.parent / "configs"
    # site-packages may contain another package's `configs`, but no pyproject.toml.
    if (checkout / f"{PRIMARY}.yaml").is_file() and (package.parent / "pyproject.toml").is_file():
        return checkout
    return package / "configs"
