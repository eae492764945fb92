"""Record the CPU kernels of a run, and report where bitwise equality is not guaranteed.

The record is an entry of the run's manifest. A resumed run reads the entry of its earlier manifest.

    manifest.json: "kernels"
      processor, environment, by_hand   see `rlcore.utils.mkl.Kernels`
      rounding                          results of the checks of all workers, without duplicates:
                                        rows, kernels and decisions as in
                                        `rlcore.utils.mkl.BatchInvariance`; digests
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlcore.files.reading import UnreadableError, read_json
from rlcore.utils.mkl import LEVELS, MKL, VARIABLES, BatchInvariance, Kernels, Processor

KEY = "kernels"
PLAIN = re.compile(r"[\w, .-]*").fullmatch  # a manifest from elsewhere must not inject other text


@dataclass(frozen=True)
class RecordedKernels:
    """Kernels that a manifest records.

    Attributes:
        kernels: processor and environment variables.
        digests: digests of the workers' results, without duplicates.
    """

    kernels: Kernels
    digests: tuple[str, ...]


def read_kernels(manifest: Path) -> RecordedKernels | None:
    """Read the kernels from `manifest.json`; return None if missing, too old or damaged.

    There is no error, because a run with other kernels differs in rounding only.
    """
    try:
        entry = read_json(manifest)[KEY]
        level, maker, units = (entry["processor"][name] for name in ("level", "maker", "units"))
        environment = {
            name: entry["environment"][name] for name in VARIABLES if name in entry["environment"]
        }
        digests = tuple(entry["rounding"]["digests"])
    except (OSError, UnreadableError, KeyError, TypeError):
        return None
    texts = (maker, *units, *environment.values(), *digests)
    if level not in LEVELS or not all(type(text) is str and PLAIN(text) for text in texts):
        return None
    processor = Processor(level, maker, tuple(units))
    return RecordedKernels(
        Kernels(processor, environment, by_hand=entry.get("by_hand") is True), digests
    )


def manifest_entry(kernels: Kernels, seen: Sequence[BatchInvariance]) -> dict[str, Any]:
    """Return the manifest's entry for these kernels.

    Args:
        seen: results of the checks, for each worker.
    """
    return {
        **asdict(kernels),
        "rounding": {
            "rows": max((check.rows for check in seen), default=0),
            "kernels": _unique(name for check in seen for name in check.kernels),
            "decisions": _unique(name for check in seen for name in check.decisions),
            "digests": _unique(check.digest for check in seen),
        },
    }


def warnings_for(
    kernels: Kernels,
    seen: Sequence[BatchInvariance],
    forward_batch: int | None,
    before: RecordedKernels | None,
) -> list[str]:
    """Return lines for the user, one for each guarantee that does not hold.

    Args:
        seen: results of the checks, for each worker.
        forward_batch: `rollout.forward_batch`.
        before: kernels of the earlier start, if the run was resumed.
    """
    warnings = []
    default = kernels.processor.setting
    if kernels.by_hand and kernels.environment.get(MKL) != default:
        warnings.append(
            f"{MKL}={kernels.environment.get(MKL)} was set by hand and is kept; rlcore would "
            f"choose {default or 'nothing'}"
        )
    rounding = manifest_entry(kernels, seen)["rounding"]
    if rounding["decisions"]:
        remedy = f"unset {MKL}" if kernels.by_hand else f"{MKL}=COMPATIBLE rlcore ... (slower)"
        variant = ", ".join(rounding["decisions"])
        warnings.append(
            f"warning: rollout.forward_batch={forward_batch} does not give a row the same bits "
            f"everywhere here: {variant} change with its place in the batch "
            f"or the rows beside it, so runs repeat up to rounding only; it may help to: {remedy}"
        )
    if forward_batch is not None and len(rounding["digests"]) > 1:
        warnings.append(
            "warning: the workers' machines round sums differently, so a run with another "
            "placement repeats up to rounding only, with or without rollout.forward_batch"
        )
    if before is not None and before.digests and list(before.digests) != rounding["digests"]:
        warnings.append(
            f"this machine rounds sums differently from the one before "
            f"({_described(before.kernels)}; here {_described(kernels)}): it learns just as "
            "well, but its numbers will not be bit for bit those of the other machine"
        )
    return warnings


def _described(kernels: Kernels) -> str:
    setting = kernels.environment.get(MKL)
    return f"{kernels.processor.maker}, {f'{MKL}={setting}' if setting else f'no {MKL}'}"


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
