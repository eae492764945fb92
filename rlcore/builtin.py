"""What core itself brings, through the same door as everybody's plugin."""

from __future__ import annotations

from rlcore.hookspecs import hookimpl
from rlcore.observers import rlcore_after_eval as rlcore_after_eval
from rlcore.observers import rlcore_after_rollout as rlcore_after_rollout
from rlcore.observers import rlcore_after_run as rlcore_after_run
from rlcore.specs import ComponentSpec

RLCORE_API = (0, 1)


@hookimpl
def rlcore_envs() -> list[ComponentSpec]:
    """A point that should reach the side its sentence names: milliseconds, no simulator."""
    return [
        ComponentSpec(
            name="toy",
            target="rlcore.testing.toy_env:make",
            summary="a point in a square, for tests and first steps",
            config="rlcore.testing.toy_settings:ToyEnvConfig",
            spec="rlcore.testing.toy_settings:env_spec",
        )
    ]


@hookimpl
def rlcore_policies() -> list[ComponentSpec]:
    """A small Gaussian policy for it."""
    return [
        ComponentSpec(
            name="toy",
            target="rlcore.testing.toy_policy:make",
            summary="a small Gaussian policy, for tests and first steps",
            config="rlcore.testing.toy_settings:ToyModelConfig",
            spec="rlcore.testing.toy_settings:policy_spec",
        )
    ]


@hookimpl
def rlcore_trackers() -> list[ComponentSpec]:
    """Trackers besides metrics.jsonl, which is always written."""
    targets = {
        "tensorboard": ("TensorBoardTracker", "event files in the run's folder"),
        "wandb": ("WandbTracker", "Weights & Biases"),
        "swanlab": ("SwanLabTracker", "SwanLab"),
    }
    return [
        ComponentSpec(name=name, target=f"rlcore.track.trackers:{attribute}", summary=summary)
        for name, (attribute, summary) in targets.items()
    ]


@hookimpl
def rlcore_protocols() -> list[ComponentSpec]:
    """The toy env, as it is trained and with less time."""
    return [
        ComponentSpec(
            name="toy_haste",
            target="rlcore.testing.toy_settings:HASTE",
            summary="the toy env with less time",
        )
    ]


@hookimpl
def rlcore_config_paths() -> list[str]:
    """Options `env=toy` and `model=toy`."""
    return ["pkg://rlcore.testing.conf"]
