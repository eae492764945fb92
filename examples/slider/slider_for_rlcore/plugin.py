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
            name="slider",
            target="slider_for_rlcore.env:make",
            summary="carts on rails, all rows stepped at once",
            config="slider_for_rlcore.settings:SliderConfig",
            spec="slider_for_rlcore.settings:env_spec",
        )
    ]
