"""Find the configuration files that rlcore ships with its code. Light."""

from __future__ import annotations

from pathlib import Path

PRIMARY = "train"
"""Name of the root file."""


def core_configs() -> Path:
    """The folder of the shipped configs: beside the package in a checkout, inside it in a wheel."""
    package = Path(__file__).parents[1]
    checkout = package.parent / "configs"
    # Another package's `configs` may lie beside an installed rlcore: only a checkout has both.
    if (checkout / f"{PRIMARY}.yaml").is_file() and (package.parent / "pyproject.toml").is_file():
        return checkout
    return package / "configs"
