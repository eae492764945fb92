"""Register this distribution with rlcore. Importing this module loads no tensor library."""

from __future__ import annotations

from rlcore.contracts.component import ComponentSpec
from rlcore.contracts.hookspecs import hookimpl

RLCORE_API = (0, 1)


@hookimpl
def rlcore_components() -> list[ComponentSpec]:
    """Register the Gaussian policy."""
    return [
        ComponentSpec(
            kind="model",
            name="gaussian",
            target="rlcore_model_gaussian.policy:make",
            summary="a small squashed Gaussian policy of images and states, from scratch",
            config="rlcore_model_gaussian.settings:GaussianConfig",
            spec="rlcore_model_gaussian.settings:policy_spec",
        )
    ]


@hookimpl
def rlcore_config_paths() -> list[str]:
    """Return where `model=gaussian` is."""
    return ["pkg://rlcore_model_gaussian.conf"]
