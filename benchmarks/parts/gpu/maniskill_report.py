"""Put together what was measured of ManiSkill with a model: speeds, their bound, phases."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from parts.machine import Machine
from parts.maniskill_alone import Alone, Work
from parts.phases import Clock


@dataclass(frozen=True)
class Report:
    """Everything that was measured.

    Attributes:
        accelerator: its name; empty where there is none.
        model: name, size, parameters, precision, adapters, rows of a micro-batch.
        setting: task, rows, chunks and so on.
        rollouts, updates: seconds of each, nothing but their ends waited for.
        work: of one rollout.
        samples: chunks that an update trains on.
        clock: phases of one more rollout and update, and memory.
        alone: the components.
    """

    machine: Machine
    accelerator: str
    model: dict[str, Any]
    setting: dict[str, Any]
    rollouts: list[float]
    updates: list[float]
    work: Work
    samples: int
    clock: Clock
    alone: Alone

    def figures(self) -> dict[str, float]:
        """Return speeds in env steps per second, and ratios."""
        steps, seconds = self.work.env_steps, self.alone.seconds(self.work)
        rollout, update = median(self.rollouts), median(self.updates)
        bound = steps / sum(seconds.values())
        return {
            "rollout": steps / rollout,
            "rollout_and_update": steps / (rollout + update),
            "bound": bound,
            "rollout/bound": steps / rollout / bound,
            "simulation_alone": steps / seconds["simulation"],
            "policy_alone": steps / seconds["policy"],
            "samples_per_second_of_update": self.samples / update,
        }

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON holds it."""
        return {
            "machine": asdict(self.machine),
            "accelerator": self.accelerator,
            "model": self.model,
            "setting": self.setting,
            "env_steps_per_second": self.figures(),
            "seconds": {"rollouts": self.rollouts, "updates": self.updates},
            "work": asdict(self.work),
            "samples": self.samples,
            "phases": {name: asdict(phase) for name, phase in self.clock.phases.items()},
            "peak_gib": {name: asdict(one) for name, one in self.clock.stages.items()},
            "alone": asdict(self.alone) | {"best_batch": self.alone.best_batch},
        }
