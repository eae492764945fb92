"""Count what reinforcement did, and how much supervised training is as much work.

Work is counted, not timed, so it is the same on a busy machine and in a run that was resumed:

    n = g + ceil(f d)        samples that the control is trained on, forward and backward
    steps = ceil(n / b)      its optimizer steps

    g  samples of the run's optimizer steps, each a forward and a backward
    d  decisions of its training episodes, each a forward
    f  cost of a forward relative to a forward and a backward, :data:`FORWARD_SHARE`
    b  samples of a supervised step

What only reinforcement pays for is not made up for: simulation, forwards of reference weights, the
several forwards of a flow's decision. A step that trains networks of an algorithm alone counts as
one that trains the policy. Evaluations and validation count on neither side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

FORWARD_SHARE = Fraction(1, 3)
"""A backward computes the gradients of inputs and of weights, each of which costs as much as the
forward: 2 N of 6 N operations for N weights (Kaplan et al. 2020, arXiv:2001.08361, section 2.1)."""


@dataclass(frozen=True)
class ControlWork:
    """The work of a run, see the module.

    Attributes:
        gradient_samples: g.
        decisions: d.
    """

    gradient_samples: int
    decisions: int

    @classmethod
    def of_run(
        cls,
        metrics: Sequence[Mapping[str, Any]],
        *,
        env_steps: int,
        episodes: int,
        num_action_chunks: int,
    ) -> ControlWork:
        """Count the work of a run.

        Args:
            metrics: lines of its `metrics.jsonl`, those of its updates among them.
            env_steps, episodes: of training.
            num_action_chunks: env steps of a decision; the last of an episode may have fewer, so
                each episode counts one more.
        """
        trained = sum(line.get("train/actor/trained_samples") or 0.0 for line in metrics)
        return cls(round(trained), -(-env_steps // num_action_chunks) + episodes)

    @property
    def samples(self) -> int:
        """n."""
        return self.gradient_samples + math.ceil(FORWARD_SHARE * self.decisions)

    def record(self, history: Mapping[str, Any]) -> dict[str, Any]:
        """What `control.json` and `summary.json` say: the counts, and the steps that were made.

        Args:
            history: of the control.
        """
        return {
            "gradient_samples": self.gradient_samples,
            "decisions": self.decisions,
            "forward_share": str(FORWARD_SHARE),
            "samples": self.samples,
            "batch_size": history["batch_size"],
            "steps": history["steps"],
            "derived": "samples = gradient_samples + forward_share * decisions; "
            "steps = samples / batch_size, rounded up",
        }
