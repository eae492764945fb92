"""The algorithm, for rlcore. Strings only."""

from rlcore import hookimpl
from rlcore.contracts.component import ComponentSpec

RLCORE_API = (0, 1)


@hookimpl
def rlcore_components() -> list[ComponentSpec]:
    return [
        ComponentSpec(
            kind="algorithm",
            name="rloo",
            target="rloo_for_rlcore.rloo:RLOO",
            config="rloo_for_rlcore.settings:RLOOConfig",
            spec="rloo_for_rlcore.settings:needs",
        )
    ]
