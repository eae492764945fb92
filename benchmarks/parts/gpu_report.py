"""What benchmarks/gpu_maniskill.py measured, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
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
        accelerator: its name and memory, or that there is none.
        command: the arguments.
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
    command: Sequence[str]
    model: dict[str, Any]
    setting: dict[str, Any]
    rollouts: list[float]
    updates: list[float]
    work: Work
    samples: int
    clock: Clock
    alone: Alone

    def figures(self) -> dict[str, float]:
        """Speeds in env steps per second, and ratios."""
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

    def lines(self) -> list[str]:
        """The table."""
        found, work = self.figures(), self.work
        told = {**self.model, **self.setting}
        speeds = sorted(round(work.env_steps / seconds, 1) for seconds in self.rollouts)
        costs = self.alone.simulation
        batches = ", ".join(f"{b}: {1e3 * s:.1f}" for b, s in self.alone.policy.items())
        return [
            *self.machine.lines(),
            self.accelerator,
            ", ".join(f"{name} {value}" for name, value in told.items()),
            f"a rollout: {work.env_steps} env steps, {work.episodes} episodes, {work.decisions} "
            f"rows decided; an update: {self.samples} chunks",
            "",
            "env steps per second",
            f"  rollout               {found['rollout']:10.1f}   median of {speeds}",
            f"  bound                 {found['bound']:10.1f}   rollout / bound "
            f"{found['rollout/bound']:.2f}",
            f"    simulation alone    {found['simulation_alone']:10.1f}",
            f"    policy alone        {found['policy_alone']:10.1f}   at batch "
            f"{self.alone.best_batch}",
            f"  rollout and update    {found['rollout_and_update']:10.1f}   update "
            f"{median(self.updates):.2f} s",
            "",
            f"alone, ms per row (simulation: {costs.rows} at once): reset {1e3 * costs.reset:.2f}, "
            f"step {1e3 * costs.step:.3f}, frame {1e3 * costs.frame:.2f}",
            f"  policy by batch: {batches}",
            "",
            f"{'phase':<28}{'s':>9}{'share':>8}{'calls':>8}{'ms a call':>11}{'ms a row':>10}",
            *self._phase_lines(),
            "",
            f"{'peak GiB':<28}{'host':>9}{'tensors':>9}{'device':>9}",
            *(
                f"  {name:<26}{memory.host:9.2f}{memory.torch:9.2f}{memory.device:9.2f}"
                for name, memory in self.clock.stages.items()
            ),
        ]

    def _phase_lines(self) -> list[str]:
        whole = self.clock.seconds
        return [
            f"  {name:<26}{phase.seconds:9.2f}{phase.seconds / whole:8.1%}{phase.calls:8d}"
            f"{1e3 * phase.seconds / phase.calls:11.1f}"
            + (f"{1e3 * phase.seconds / phase.rows:10.2f}" if phase.rows else f"{'':>10}")
            for name, phase in sorted(self.clock.phases.items(), key=lambda item: -item[1].seconds)
        ]

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "machine": asdict(self.machine),
            "accelerator": self.accelerator,
            "command": list(self.command),
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
