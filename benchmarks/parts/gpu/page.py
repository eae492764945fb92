"""Write the tables of docs/hardware.md from a JSON of benchmarks/gpu.py and from the planner.

The prose is the page's own. What lies between `<!-- NAME -->` and `<!-- /NAME -->` is made here.
Each row says whether it was measured, with device, date and command, or is planned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from parts.gpu.memory import MICRO_BATCHES, learning, recomputing
from parts.gpu.operations import COUNTED
from parts.gpu.subject import METHODS, Subject, planned_facts, published
from rlcore.placement.described_nodes import USABLE_GIB
from rlcore.placement.memory import CONTEXT, MemoryNeed, fits

GIB = 2**30
SHOWN = (1, 8, 32)
CARDS: tuple[tuple[int, str, float], ...] = (
    (24, "RTX 4090", 165e12),
    (48, "L40S", 362e12),
    (80, "H100", 989e12),
)
"""GB, a card of that size, and the dense bf16 operations a second that its maker states."""
SHARE = 0.3
"""Of a card's stated operations a second, what a planned time assumes."""
SAMPLES = 1024
"""Of the update whose minutes are shown."""
NAMES = {"pi0": "π0, 3.2 B", "pi05": "π0.5, 3.4 B", "openvla_oft": "OpenVLA-OFT, 7.5 B"}
TRAINED = {"lora": "adapters", "expert": "action expert"}
PLANNED = "planned"


@dataclass(frozen=True)
class Case:
    """A model and what of it is trained.

    Attributes:
        needs: what the plan counts for it, by whether activations are recomputed.
    """

    model: str
    method: str
    needs: Mapping[bool, MemoryNeed]

    @property
    def words(self) -> str:
        return f"{NAMES[self.model]} | {TRAINED[self.method]}"


def written_page(page: Path, measured: Mapping[str, Any] | None) -> str:
    """Return the page with its tables made anew.

    Args:
        page: as it is; its prose is kept.
        measured: a record of benchmarks/gpu.py; None: nothing was measured.

    Raises:
        ValueError: the figures are of `--quick`, or the page lacks the place of a table.
    """
    if measured is not None and measured["quick"]:
        raise ValueError("figures of --quick mean nothing: they belong on no page")
    found = Measured(measured)
    cases = [_case(model, method) for model, methods in METHODS.items() for method in methods]
    text = page.read_text(encoding="utf-8")
    for name, lines in (
        ("status", _status(found)),
        ("fits", _fits(cases, found)),
        ("memory", _memory(cases, found)),
        ("minutes", _minutes(cases, found)),
        ("further", _further(found)),
    ):
        text = _replaced(text, name, "\n".join(lines))
    return text


def _replaced(text: str, name: str, table: str) -> str:
    place = re.compile(rf"<!-- {name} -->.*?<!-- /{name} -->", re.S)
    if place.search(text) is None:
        raise ValueError(
            f"the page has no place for {name!r}: <!-- {name} --> ... <!-- /{name} -->"
        )
    return place.sub(lambda _: f"<!-- {name} -->\n{table}\n<!-- /{name} -->", text)


class Measured:
    """What a record says of one thing, and how it came by it."""

    def __init__(self, record: Mapping[str, Any] | None) -> None:
        self._rows = {row["row"]: row["figures"] for row in (record or {}).get("rows", ())}
        self._record = record

    def figures(self, row: str) -> list[dict[str, Any]]:
        """Return the figures of a row; none if it was not run."""
        return list(self._rows.get(row, ()))

    @property
    def rows(self) -> list[str]:
        return list(self._rows)

    @property
    def device(self) -> str:
        """Return the card's name; empty where nothing was measured."""
        machine = self.figures("machine/device")
        return str(machine[0]["device"]) if machine else ""

    def origin(self, row: str) -> str:
        """Return device, date and command of a row."""
        (machine,) = self.figures("machine/device")
        return f"{self.device}, {machine['date']}, `python benchmarks/gpu.py {_quoted(row)}`"

    def learning(self, case: Case, samples: int, recomputes: bool) -> dict[str, Any] | None:
        """Return the figures of learning from so many samples, or that they did not fit; None: not
        measured."""
        for one in self.figures(f"memory/{case.model} {case.method}"):
            same = one.get("micro_batch") == samples
            if same and one["gradient_checkpointing"] == recomputes:
                return one
        return None

    @property
    def memory(self) -> float:
        """Return the bytes of the card's memory; 0 where nothing was measured."""
        machine = self.figures("machine/device")
        return float(machine[0]["memory_gib"]) * GIB if machine else 0.0


def _quoted(row: str) -> str:
    return f"'{row}'" if " " in row else row


def _case(model: str, method: str) -> Case:
    words = published(model, method, "actor.micro_batch_size=32")
    facts = planned_facts(words)
    subject = Subject(facts.config, facts, facts.policy_env, None)
    return Case(model, method, {again: recomputing(subject, again) for again in (False, True)})


def _status(found: Measured) -> Iterator[str]:
    if not found.device:
        yield "No row below has been measured on a GPU yet: all are planned."
        return
    (machine,) = found.figures("machine/device")
    yield (
        f"Measured on one {found.device} ({machine['memory_gib']:.0f} GiB), "
        f"{machine['cores']} cores, torch {machine['packages']['torch']}, {machine['date']}; "
        "what was not is planned."
    )


def _fits(cases: list[Case], found: Measured) -> Iterator[str]:
    yield "| model | trained | " + " | ".join(f"{gb} GB" for gb, _, _ in CARDS) + " | basis |"
    yield "|---|---|" + "---|" * len(CARDS) + "---|"
    for case in cases:
        cells = [_largest(case, found, USABLE_GIB[gb] * GIB) for gb, _, _ in CARDS]
        row = f"memory/{case.model} {case.method}"
        measured = any(
            found.learning(case, size, again) for size in SHOWN for again in (False, True)
        )
        basis = found.origin(row) if measured else PLANNED
        yield f"| {case.words} | {' | '.join(cells)} | {basis} |"


def _largest(case: Case, found: Measured, have: float) -> str:
    """Return the largest micro-batches that fit, without and with recomputed activations."""
    cells = []
    for again, words in ((False, "{}"), (True, "{} recomputed")):
        # a size that was not measured counts as planned, but none above one that did not fit
        held = takewhile(lambda n, again=again: _held(case, found, n, again, have), MICRO_BATCHES)
        if sizes := list(held):
            cells.append(words.format(sizes[-1]))
    return ", ".join(cells) or "no"


def _held(case: Case, found: Measured, samples: int, again: bool, have: float) -> bool:
    measured, bytes_held = (
        found.learning(case, samples, again),
        learning(case.needs[again], samples),
    )
    if measured and measured["fits"]:
        bytes_held = int(measured["reserved_gib"] * GIB)
    elif measured and have <= found.memory:
        return False
    return fits(bytes_held + CONTEXT, int(have))


def _memory(cases: list[Case], found: Measured) -> Iterator[str]:
    sizes = " | ".join(f"micro-batch {samples}" for samples in SHOWN)
    yield f"| model | trained | activations | {sizes} | basis |"
    yield "|---|---|---|" + "---|" * len(SHOWN) + "---|"
    for case in cases:
        for again in (False, True):
            cells = [_peak(case, found, samples, again) for samples in SHOWN]
            measured = any(found.learning(case, samples, again) for samples in SHOWN)
            basis = found.origin(f"memory/{case.model} {case.method}") if measured else PLANNED
            kept = "recomputed" if again else "kept"
            yield f"| {case.words} | {kept} | {' | '.join(cells)} | {basis} |"


def _peak(case: Case, found: Measured, samples: int, again: bool) -> str:
    """Return the GiB that are planned, and those that were measured, if any."""
    plan = f"{learning(case.needs[again], samples) / GIB:.1f}"
    measured = found.learning(case, samples, again)
    return plan if measured is None else f"{plan} (measured: {_told_peak(measured)})"


def _told_peak(one: Mapping[str, Any]) -> str:
    return f"{one['tensors_gib']:.1f}" if one["fits"] else "did not fit"


def _minutes(cases: list[Case], found: Measured) -> Iterator[str]:
    cards = " | ".join(f"{card}, {gb} GB" for gb, card, _ in CARDS)
    yield f"| model | trained | {cards} | basis |"
    yield "|---|---|" + "---|" * len(CARDS) + "---|"
    for case in cases:
        cells = []
        for gb, _, speed in CARDS:
            if _largest(case, found, USABLE_GIB[gb] * GIB) == "no":
                cells.append("does not fit")
                continue
            minutes = SAMPLES * COUNTED[case.model, case.method] / (SHARE * speed) / 60
            cells.append(f"{minutes:.2g}")
        row = f"speed/{case.model} update"
        rates = [one["samples_per_second"] for one in found.figures(row) if one["fits"]]
        basis = PLANNED
        if rates and case.method == "lora":
            basis += f"; measured: {SAMPLES / max(rates) / 60:.2g} on {found.origin(row)}"
        yield f"| {case.words} | {' | '.join(cells)} | {basis} |"


def _further(found: Measured) -> Iterator[str]:
    """All other figures, a line each."""
    rows = [row for row in found.rows if row.partition("/")[0] not in ("machine", "memory")]
    if not rows:
        yield "Nothing was measured yet."
        return
    yield "| row | figures |"
    yield "|---|---|"
    for row in rows:
        for figures in found.figures(row):
            yield f"| {row} | {_told(figures)} |"


def _told(figures: Mapping[str, Any]) -> str:
    """Return the plain ones of some figures, three digits each."""
    plain = {n: v for n, v in figures.items() if isinstance(v, int | float | str)}
    shown = (f"{v:.3g}" if isinstance(v, float) else str(v) for v in plain.values())
    return ", ".join(f"{n} {v}" for n, v in zip(plain, shown, strict=True)).replace("|", "/")
