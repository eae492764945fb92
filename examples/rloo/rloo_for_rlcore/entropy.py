"""A second plugin of this package, for any on-policy algorithm: a wrapper, a hook, a recipe."""

from __future__ import annotations

from dataclasses import dataclass

from rlcore import hookimpl
from rlcore.config.schema import AlgorithmWrapping, PluginConfig, key
from rlcore.contracts.run import Run
from rlcore.contracts.specs import ComponentSpec

RLCORE_API = (0, 1)


@dataclass
class EntropyFloor(AlgorithmWrapping):
    """Keeps the entropy of a decision above a floor."""

    floor: float = key("of the mean entropy of a chunk's entries, in nats", 0.0)
    coef: float = key("of the term", 0.1, minimum=0)


@dataclass
class EntropyConfig(PluginConfig):
    """When a run is ended."""

    least: float | None = key("entropy in nats; a run below it ends; null: none does")


@hookimpl
def rlcore_components() -> list[ComponentSpec]:
    return [
        ComponentSpec(
            kind="wrapper",
            name="entropy_floor",
            target="rloo_for_rlcore.entropy_floor:floored",
            summary="a loss term that keeps the entropy above a floor",
            config=f"{__name__}:EntropyFloor",
        )
    ]


@hookimpl
def rlcore_config_paths() -> list[str]:
    return ["pkg://rloo_for_rlcore.conf"]


@hookimpl
def rlcore_settings() -> list[str]:
    return [f"{__name__}:EntropyConfig"]


@hookimpl
def rlcore_after_update(run: Run, metrics: dict[str, float]) -> None:
    """End a run that no longer explores."""
    least = run.config.plugins.entropy.least
    if least is not None and metrics.get("train/actor/entropy", least) < least:
        run.stop(f"the entropy is below {least:g}")
