"""Count the work of reinforcement learning, and the supervised training of equal work.

Work is counted, not timed, so it does not depend on the load of the machine or on resumes:

    n = g + ceil(f d)        samples that the control is trained on, forward and backward
    steps = ceil(n / b)      its optimizer steps

    g  samples of the run's optimizer steps, each a forward and a backward
    d  decisions of its training episodes, each a forward
    f  cost of a forward relative to a forward and a backward, :data:`FORWARD_SHARE`
    b  samples of a supervised step

Costs that only reinforcement learning has are not counted: simulation, forwards of reference
weights, the additional forwards of a flow policy's decision. A step that trains only the
algorithm's networks counts like a step that trains the policy. Evaluation and validation count on
neither side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from rlcore.runs.summary import Control

FORWARD_SHARE = Fraction(1, 3)
"""A backward computes the gradients of inputs and of weights, each of which costs as much as the
forward: 2 N of 6 N operations for N weights (Kaplan et al. 2020, arXiv:2001.08361, section 2.1)."""


@dataclass(frozen=True)
class ControlWork:
    """The work of a run; see the module docstring.

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
            metrics: lines of the run's `metrics.jsonl`; lines without trained samples add nothing.
            env_steps, episodes: numbers of env steps and episodes of training.
            num_action_chunks: env steps per decision. The last decision of an episode may have
                fewer, so one decision per episode is added.
        """
        trained = sum(line.get("train/actor/trained_samples") or 0.0 for line in metrics)
        return cls(round(trained), -(-env_steps // num_action_chunks) + episodes)

    @property
    def samples(self) -> int:
        """Return n, the number of samples that the control is trained on."""
        return self.gradient_samples + math.ceil(FORWARD_SHARE * self.decisions)

    def record(self, history: Mapping[str, Any]) -> Control:
        """Return the record for `control.json` and `summary.json`: the counts and the steps made.

        Args:
            history: summary of the control's training history.
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
