"""What this package adds to rlcore. Strings only."""

from __future__ import annotations

from rlcore import hookimpl
from rlcore.contracts.component import ComponentSpec

RLCORE_API = (0, 1)


@hookimpl
def rlcore_components() -> list[ComponentSpec]:
    return [
        ComponentSpec(
            kind="env",
            name="fetch",
            target="fetch_for_rlcore.env:make",
            summary="the Fetch robot reaches, or lifts a cube",
            config="fetch_for_rlcore.settings:FetchConfig",
            spec="fetch_for_rlcore.settings:env_spec",
        )
    ]


@hookimpl
def rlcore_config_paths() -> list[str]:
    return ["pkg://fetch_for_rlcore.conf"]
