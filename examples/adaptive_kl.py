"""A learning rate that holds the step of the policy at a target size.

    KL > 2 target: rate / 1.5        KL < target / 2: rate * 1.5

KL is that of the updated policy to the one that acted. The schedule of `actor.optim` stays as it
is; this is a factor on it. A plugin: a package names this module in its entry points
(docs/plugins.md).
"""

from __future__ import annotations

from rlcore import hookimpl
from rlcore.contracts.run import Run

RLCORE_API = (0, 1)
TARGET_KL = 0.01
STEP = 1.5
LOWEST, HIGHEST = 0.01, 10.0  # of the factor


@hookimpl
def rlcore_after_update(run: Run, metrics: dict[str, float]) -> None:
    """Set the factor for the next update; the value group keeps its own."""
    kl = metrics["train/actor/approx_kl"]  # NaN where no step was made: then nothing changes
    factor = run.lr_factors["policy"]
    if kl > 2 * TARGET_KL:
        factor = max(factor / STEP, LOWEST)
    elif kl < TARGET_KL / 2:
        factor = min(factor * STEP, HIGHEST)
    run.set_lr_factors({**run.lr_factors, "policy": factor})
    metrics["adaptive_kl/lr_factor"] = factor
