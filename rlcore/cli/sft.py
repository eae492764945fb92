"""Run `rlcore sft [EXPERIMENT] [overrides]`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rlcore.cli.request import Request
from rlcore.cli.verbs import Verb, run_verb
from rlcore.config.overrides import overridden_keys
from rlcore.config.schema import AlgorithmConfig, RunConfig
from rlcore.config.warning import warn

SFT = Verb("sft", "rlcore.training.sft:run", purpose="supervised")


def main(arguments: Sequence[str]) -> int:
    """Train supervised; see :func:`rlcore.cli.verbs.run_verb`."""
    return run_verb(SFT, arguments, configure)


def configure(request: Request, overrides: Sequence[str]) -> RunConfig:
    """Compose a configuration with supervised training enabled, so that its needs are checked.

    The algorithm of a recipe is left out, so that `rlcore resume` continues the supervised training
    of the run, without reinforcement learning after it. The policy has the critic that the
    algorithm needs, as in the checkpoints of its runs.
    """
    config = SFT.compose(request, ["sft.enabled=true", *overrides])
    if config.sft.enabled:
        keys = sorted(overridden_keys(overrides))
        ignored = [key for key in keys if key.startswith("algorithm.")]
        if ignored:
            warn(f"rlcore sft ignores {', '.join(ignored)}: it trains without an algorithm")
        config = replace(config, algorithm=AlgorithmConfig(name=""))
        config.freeze()
    return config
