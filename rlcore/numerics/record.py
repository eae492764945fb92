"""Record the CPU kernels of a run, and report where bitwise equality is not guaranteed.

Read from an earlier manifest, written into this one; one line for each promise that does not hold.

    manifest.json: "kernels"
      processor, environment, by_hand   see `rlcore.numerics.mkl.Kernels`
      rounding                          the checks' results: see `BatchInvariance` in
                                        `rlcore.numerics.mkl`, and the digests of the
                                        workers, each once
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlcore.files.reading import Unreadable, read_json
from rlcore.numerics.mkl import LEVELS, MKL, VARIABLES, BatchInvariance, Kernels, Processor

KEY = "kernels"
PLAIN = re.compile(r"[\w, .-]*").fullmatch  # a folder from elsewhere puts nothing else in place


@dataclass(frozen=True)
class RecordedKernels:
    """The kernels of an earlier run, or of the start of this one.

    Attributes:
        kernels: the settings.
        digests: of its workers' results, each once.
    """

    kernels: Kernels
    digests: tuple[str, ...]


def read_kernels(manifest: Path) -> RecordedKernels | None:
    """Read it from `manifest.json`; None if missing, too old or damaged. Only the last bits
    depend on it."""
    try:
        kept = read_json(manifest)[KEY]
        level, maker, units = (kept["processor"][name] for name in ("level", "maker", "units"))
        environment = {name: kept["environment"][name] for name in VARIABLES
                       if name in kept["environment"]}  # fmt: skip
        digests = tuple(kept["rounding"]["digests"])
    except (OSError, Unreadable, KeyError, TypeError):
        return None
    texts = (maker, *units, *environment.values(), *digests)
    if level not in LEVELS or not all(type(text) is str and PLAIN(text) for text in texts):
        return None
    processor = Processor(level, maker, tuple(units))
    return RecordedKernels(
        Kernels(processor, environment, by_hand=kept.get("by_hand") is True), digests
    )


def manifest_entry(kernels: Kernels, seen: Sequence[BatchInvariance]) -> dict[str, Any]:
    """The entry of the manifest."""
    return {
        **asdict(kernels),
        "rounding": {
            "rows": max((one.rows for one in seen), default=0),
            "kernels": _each_once(name for one in seen for name in one.kernels),
            "decisions": _each_once(name for one in seen for name in one.decisions),
            "digests": _each_once(one.digest for one in seen),
        },
    }


def warnings_for(
    kernels: Kernels,
    seen: Sequence[BatchInvariance],
    forward_batch: int | None,
    before: RecordedKernels | None,
) -> list[str]:
    """Lines for the user, one for each promise that does not hold."""
    found = []
    own = kernels.processor.setting
    if kernels.by_hand and kernels.environment.get(MKL) != own:
        found.append(
            f"{MKL}={kernels.environment.get(MKL)} was set by hand and is kept; rlcore would "
            f"choose {own or 'nothing'}"
        )
    kept = manifest_entry(kernels, seen)["rounding"]
    if kept["decisions"]:
        mend = f"unset {MKL}" if kernels.by_hand else f"{MKL}=COMPATIBLE rlcore ... (slower)"
        found.append(
            f"warning: rollout.forward_batch={forward_batch} does not give a row the same bits "
            f"everywhere here: {', '.join(kept['decisions'])} change with its place in the batch "
            f"or the rows beside it, so runs repeat up to rounding only; it may help to: {mend}"
        )
    if forward_batch is not None and len(kept["digests"]) > 1:
        found.append(
            "warning: the workers' machines round sums differently, so a run with another "
            "placement repeats up to rounding only, with or without rollout.forward_batch"
        )
    if before is not None and before.digests and list(before.digests) != kept["digests"]:
        found.append(
            f"this machine rounds sums differently from the one before "
            f"({_described(before.kernels)}; here {_described(kernels)}): it learns just as "
            "well, but its numbers will not be bit for bit those of the other machine"
        )
    return found


def _described(kernels: Kernels) -> str:
    setting = kernels.environment.get(MKL)
    return f"{kernels.processor.maker}, {f'{MKL}={setting}' if setting else f'no {MKL}'}"


def _each_once(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
