"""Make the tables of `rlcore eval RUN protocol=NAME`, with the published figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rlcore.contracts.specs import Published
from rlcore.files.damaged_files import blaming, read_mapping
from rlcore.results.tables import SuccessRow


@dataclass(frozen=True)
class Benchmark:
    """One protocol's table.

    Attributes:
        name: of the protocol.
        columns: its groups, averages and totals, with their rates and intervals.
        published: rows of others in these columns.
        differs: what of the protocol is not as it was for these.
        caveats: what its own figures must not be taken for.
    """

    name: str
    columns: tuple[SuccessRow, ...]
    published: tuple[Published, ...]
    differs: tuple[str, ...]
    caveats: tuple[str, ...]


def read_benchmarks(evaluations: Path) -> list[Benchmark]:
    """Those of a run's folder `eval`, by name; tables of earlier versions have nothing published.

    Raises:
        CheckpointError: a table is damaged; names it.
    """
    files = sorted(evaluations.glob("*.json"))
    return [_read(file) for file in files if not file.name.endswith(".plan.json")]


def _read(file: Path) -> Benchmark:
    table = read_mapping(file)
    with blaming(file):
        rows = [SuccessRow(**row) for row in table["rows"]]
        caveats = (row["caveat"] for row in table["evaluated"].values())
        return Benchmark(
            name=str(table["protocol"]),
            columns=tuple(row for row in rows if row.kind != "task"),
            published=tuple(Published(**row) for row in table.get("published", ())),
            differs=tuple(table.get("differs", ())),
            caveats=tuple(dict.fromkeys(filter(None, caveats))),
        )
