"""Register this package with rlcore. Imports nothing heavy."""

from __future__ import annotations

from typing import Any

from rlcore import hookimpl

RLCORE_API = (0, 1)


@hookimpl
def rlcore_translate_keys(layers: list[dict[str, Any]], config: Any | None) -> None:
    """Translate RLinf's spellings of keys."""
    from rlcore_rlinf.spellings import translate_rlinf_keys  # only when a configuration is composed

    translate_rlinf_keys(layers, config)


@hookimpl
def rlcore_metric_names() -> dict[str, str]:
    """Return the names of metrics in RLinf's documentation."""
    return {
        "actor/loss": "train/actor/policy_loss",
        "actor/value_loss": "train/critic/value_loss",
        "actor/grad_norm": "train/actor/grad_norm",
        "actor/approx_kl": "train/actor/approx_kl",
        "train/actor/approx_kl_k3": "train/actor/approx_kl",
        "actor/pg_clipfrac": "train/actor/clip_fraction",
        "actor/value_clip_ratio": "train/critic/value_clip_ratio",
        "train/entropy_loss": "train/actor/entropy",
        "train/loss": "train/actor/total_loss",
    }
