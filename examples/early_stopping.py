"""Ends training once the evaluations between updates get no better.

    rlcore train ... runner.val_check_interval=5

A plugin: a package names this module in its entry points (docs/plugins.md).
"""

from __future__ import annotations

from rlcore import hookimpl
from rlcore.contracts.run import Run

RLCORE_API = (0, 1)
PATIENCE = 3  # evaluations in a row that are no better than the best before them


@hookimpl
def rlcore_after_eval(run: Run, label: str, metrics: dict[str, float]) -> None:
    """Compare with the best so far; both are kept, so that a resumed run stops where this would."""
    if not label.startswith("step_"):  # before and after training there is nothing to stop
        return
    success = metrics["eval/success_once"]
    so_far = run.stored().get("early_stopping", {"best": -1.0, "waited": 0})
    better = success > so_far["best"]
    best = success if better else so_far["best"]
    waited = 0 if better else so_far["waited"] + 1
    run.store("early_stopping", {"best": best, "waited": waited})
    if waited >= PATIENCE:
        run.stop(f"success is no better than {best:.3f} in {PATIENCE} evaluations")
