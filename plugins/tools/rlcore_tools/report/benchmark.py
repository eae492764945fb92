"""Read the tables that `rlcore eval RUN protocol=NAME` wrote, with the published results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rlcore.contracts.specs import Published
from rlcore.files.damaged_files import damaged_on, read_mapping
from rlcore.runs.tables import SuccessRow


@dataclass(frozen=True)
class Benchmark:
    """Success rates of a run under one protocol, with published results for comparison.

    Attributes:
        name: name of the protocol.
        columns: success rates of the protocol's task groups, averages and totals, with intervals;
            rows of single tasks are left out.
        published: published results for these columns.
        differs: in what this evaluation's protocol differs from that of the published results.
        caveats: limits of what the measured rates mean, without duplicates.
    """

    name: str
    columns: tuple[SuccessRow, ...]
    published: tuple[Published, ...]
    differs: tuple[str, ...]
    caveats: tuple[str, ...]


def read_benchmarks(evaluations: Path) -> list[Benchmark]:
    """Read the protocol tables in a run's folder `eval`, sorted by file name.

    Raises:
        CheckpointError: a table is damaged; the message names its file.
    """
    files = sorted(evaluations.glob("*.json"))
    return [_read(file) for file in files if not file.name.endswith(".plan.json")]


def _read(file: Path) -> Benchmark:
    table = read_mapping(file)
    with damaged_on(file):
        rows = [SuccessRow(**row) for row in table["rows"]]
        caveats = (row["caveat"] for row in table["evaluated"].values())
        return Benchmark(
            name=str(table["protocol"]),
            columns=tuple(row for row in rows if row.kind != "task"),
            published=tuple(Published(**row) for row in table["published"]),
            differs=tuple(table["differs"]),
            caveats=tuple(dict.fromkeys(filter(None, caveats))),
        )
