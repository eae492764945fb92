"""List the rows of benchmarks/gpu.py in the order in which they run: the most wanted come first.

A row is one process. Only the standard library is imported here: a bare machine lists its rows too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

PARTS = {
    "correctness": "the networks on the CPU against the card, repeats, resumes, batches",
    "memory": "peaks of the real sizes against the estimate of `rlcore plan`",
    "speed": "decisions and samples a second against the same network alone",
    "simulators": "frames through the card's EGL and Vulkan against software",
    "weights": "weights between two processes of one card; offload and back",
    "run": "rollouts and updates of two recipes, cut short",
}
MACHINE = "machine"
"""The part of the first row, which is always run: what the figures were taken on."""


@dataclass(frozen=True)
class Row:
    """What one process measures.

    Attributes:
        part: one of :data:`PARTS`.
        name: unique within the part.
        target: `"module:function"`; it is called with a function that reports figures, with
            `quick`, and with the arguments.
        seconds: expected on an H100, for the plan of the ten minutes.
        arguments: keyword arguments, plain data.
        quick: arguments of `--quick` that replace those above; None: `--quick` leaves the row out.
        needs: modules without which it cannot run.
    """

    part: str
    name: str
    target: str
    seconds: float
    arguments: Mapping[str, Any] = field(default_factory=dict)
    quick: Mapping[str, Any] | None = field(default_factory=dict)
    needs: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        return f"{self.part}/{self.name}"

    def arguments_for(self, quick: bool) -> dict[str, Any]:
        """Return the arguments of one of both forms."""
        return {**self.arguments, **((self.quick or {}) if quick else {})}


MODELS = ("torch", "transformers", "peft", "hydra", "omegaconf")
RENDERS_MUJOCO = ("torch", "hydra", "mujoco")
RENDERS_SAPIEN = ("torch", "hydra", "sapien", "mani_skill")


def _correctness(model: str, **more: Any) -> Row:
    return Row(
        "correctness",
        model,
        "parts.gpu.correctness:compare",
        25,
        {"model": model},
        needs=MODELS,
        **more,
    )


def _memory(model: str, method: str, seconds: float, **more: Any) -> Row:
    return Row(
        "memory",
        f"{model} {method}",
        "parts.gpu.memory:peaks",
        seconds,
        {"model": model, "method": method},
        needs=MODELS,
        **more,
    )


def _speed(model: str, what: str, seconds: float, **more: Any) -> Row:
    return Row(
        "speed",
        f"{model} {what}",
        f"parts.gpu.speed:{what}",
        seconds,
        {"model": model},
        needs=MODELS,
        **more,
    )


THIS_MACHINE = Row(MACHINE, "device", "parts.gpu.device:describe", 8, needs=("torch",))

ROWS: tuple[Row, ...] = (
    _memory("pi05", "lora", 35),
    _correctness("pi0"),
    _memory("openvla_oft", "lora", 45, quick=None),
    _speed("pi05", "update", 35),
    Row("weights", "ways", "parts.gpu.weights:ways", 40, quick={"mib": (0.5, 70), "repeats": 1},
        needs=("torch",)),
    _correctness("openvla_oft", quick=None),
    _speed("pi05", "acting", 35),
    Row("simulators", "metaworld", "parts.gpu.simulators:mujoco_frames", 25, {"env": "metaworld"},
        needs=(*RENDERS_MUJOCO, "metaworld")),
    Row("run", "quickstart_expo", "parts.gpu.run:quickstart_expo", 60,
        needs=(*MODELS, "mujoco", "metaworld", "pyarrow")),
    _memory("pi05", "expert", 35, quick=None),
    _speed("openvla_oft", "update", 40, quick=None),
    _correctness("pi05", quick=None),
    _correctness("openvla"),
    Row("simulators", "maniskill", "parts.gpu.simulators:sapien_frames", 30, needs=RENDERS_SAPIEN,
        quick=None),
    Row("run", "maniskill_ppo_openvlaoft", "parts.gpu.run:maniskill", 90,
        {"model": "openvla_oft"}, needs=(*MODELS, *RENDERS_SAPIEN), quick=None),
    _speed("openvla_oft", "acting", 40, quick=None),
    Row("speed", "optimizer and transfers", "parts.gpu.speed:optimizer_and_transfers", 20,
        needs=MODELS),
    _memory("pi0", "lora", 35, quick=None),
    _memory("pi0", "expert", 35, quick=None),
    Row("simulators", "libero", "parts.gpu.simulators:mujoco_frames", 30, {"env": "libero"},
        needs=(*RENDERS_MUJOCO, "libero", "robosuite"), quick=None),
    Row("weights", "offload", "parts.gpu.weights:offload", 15, quick={"mib": 4, "repeats": 1},
        needs=("torch",)),
    Row("simulators", "maniskill on the card", "parts.gpu.simulators:batched_simulation", 45,
        needs=RENDERS_SAPIEN, quick=None),
    Row("run", "maniskill on the card", "parts.gpu.run:maniskill", 90,
        {"model": "openvla_oft", "sim_backend": "gpu"}, needs=(*MODELS, *RENDERS_SAPIEN)),
    _speed("pi05", "compiled", 75),
    Row("run", "maniskill_ppo_openpi_pi05", "parts.gpu.run:maniskill", 90, {"model": "pi05"},
        needs=(*MODELS, *RENDERS_SAPIEN), quick=None),
)  # fmt: skip


def chosen(parts: Sequence[str], quick: bool) -> list[Row]:
    """Return the rows to run, in order, the machine's first.

    Args:
        parts: names of parts, or of single rows as `PART/NAME`; none: all.
        quick: whether those that `--quick` leaves out are left out unless they are named.

    Raises:
        ValueError: a name is neither a part nor a row; the message lists the choices.
    """
    rows = {row.full_name: row for row in ROWS}
    unknown = [name for name in parts if name not in PARTS and name not in rows]
    if unknown:
        choices = ", ".join(PARTS)
        raise ValueError(
            f"{unknown[0]!r} is neither a part ({choices}) nor a row (see --list)",
        )
    found = [
        row
        for name, row in rows.items()
        if name in parts or ((not parts or row.part in parts) and not (quick and row.quick is None))
    ]
    return [THIS_MACHINE, *found]


def schedule(rows: Sequence[Row], limit: float) -> list[str]:
    """Return the plan of the time, a line a row: when it begins, what it takes, its name."""
    lines = ["begins  takes  row   (expected seconds on an H100)"]
    begins = 0.0
    for row in rows:
        late = "   <- may not be reached" if begins + row.seconds > limit else ""
        lines.append(f"{begins:6.0f} {row.seconds:6.0f}  {row.full_name}{late}")
        begins += row.seconds
    return [*lines, f"{begins:6.0f}         all; the whole is stopped at {limit:.0f} s"]
