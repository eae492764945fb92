"""`rlcore cluster` shows the machines."""

from __future__ import annotations

from rlcore.cli.main import main


def test_the_command_shows_the_machines(capsys):
    assert main(["cluster", "cluster.inventory=2x4x24GB"]) == 0
    printed = capsys.readouterr().out
    rows = [line for line in printed.splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in row.split("│")[1:-1]] for row in rows] == [
        ["0", "-", "4", "22.50 GiB", "64", "512.00 GiB", "0-3", "-"],
        ["1", "-", "4", "22.50 GiB", "64", "512.00 GiB", "4-7", "-"],
    ]
    assert "8 ranks" in printed
