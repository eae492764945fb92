"""What the table of running jobs reads from their logs."""

from __future__ import annotations

import io

from rlcore_sweeps.progress import PHASE

from rlcore.training.progress import Progress
from rlcore.utils.console import Canvas


def test_phases_are_found_in_what_a_run_prints() -> None:
    log = Canvas(80, colours=False, file=io.StringIO())
    with Progress(console=log) as progress:
        progress.line("run folder: /tmp/a")
        with progress.phase("evaluate (before)", total=2) as phase:
            phase.counts({"episodes": 2, "successes": 1})
        progress.line("success before: 0.500 [0.1, 0.9] over 2 episodes")
        progress.update_line(1, 2, {"env/success_once": 0.5})
    assert PHASE.findall(log.file.getvalue()) == ["evaluate (before)"]
