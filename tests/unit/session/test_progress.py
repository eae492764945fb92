"""Progress: a line an event without a terminal, bars with one, seconds that add up."""

import io
import re
import subprocess
import sys
import time

import pytest

from rlcore.session.progress import Clock, Progress
from rlcore.terminal.console import Canvas


@pytest.fixture
def plain():
    return Canvas(60, colours=False, file=io.StringIO())


def lines(console):
    return console.file.getvalue().splitlines()


def test_one_line_a_phase_without_a_terminal(plain):
    with Progress(console=plain) as progress:
        with progress.phase("rollout", total=64) as phase:
            for played in range(1, 17):
                phase.counts({"episodes": 4 * played, "successes": played})
            assert lines(plain) == []  # nothing per chunk
        progress.shares({"env": 6.0, "policy": 3.0, "update": 1.0})
        with progress.phase("update") as phase:
            phase.note("loss 0.10")
        progress.line("kept [as it is]")
    first, second, third = lines(plain)
    assert re.match(r"\[1\] rollout: 64 of 64, success 0\.25, \d+\.", first)
    assert re.match(r"\[2\] update: loss 0\.10, \d+\.", second)
    assert "(env 60% policy 30% update 10%)" in second
    assert third == "kept [as it is]"


def test_a_long_phase_says_now_and_then_where_it_stands(plain, monkeypatch):
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with Progress(console=plain) as progress, progress.phase("sft", total=400) as phase:
        for step in range(1, 301):  # a second each
            now += 1.0
            phase.set(step, note=f"loss {1 / step:.4f}")
    running, last = lines(plain)[:-1], lines(plain)[-1]
    # after every 60 s, of which there are 5
    assert [line.partition(", running, ")[0] for line in running] == [
        f"[1] sft: {step} of 400, loss {1 / step:.4f}" for step in range(60, 301, 60)
    ]
    assert last.startswith("[1] sft: 300 of 400, loss 0.0033, ")


def test_running_totals_replace_counts(plain):
    with Progress(console=plain) as progress, progress.phase("evaluate", total=10) as phase:
        phase.counts({"episodes": 4, "successes": 1})
        phase.counts({"episodes": 10, "successes": 7})
        phase.counts({"messages": 3})
        assert phase.status == "success 0.70"
    assert lines(plain)[0].startswith("[1] evaluate: 10 of 10, success 0.70")


def test_a_phase_that_raises_says_so(plain):
    with (
        pytest.raises(KeyboardInterrupt),
        Progress(console=plain) as progress,
        progress.phase("rollout", total=4) as phase,
    ):
        phase.advance()
        raise KeyboardInterrupt
    assert "1 of 4, stopped" in lines(plain)[0]


def test_update_line_shows_the_metrics_there_are(plain):
    with Progress(console=plain) as progress:
        progress.update_line(
            3, 10,
            {"env/success_once": 0.5, "train/actor/approx_kl": 0.01234, "time/env": 3.0,
             "time/update": 1.0, "time/rollout": 5.0},
        )  # fmt: skip
        with progress.phase("rollout"):
            pass
    # 5 s of rollout and 1 s of update, 7 more of them: 42 s = 0.7 min
    assert lines(plain)[0] == (
        "update 3/10: success 0.500, kl 0.0123, 6.0 s (env 75% update 25%), "
        "0.7 min of training left"
    )
    assert "(env 75% update 25%)" in lines(plain)[1]


def test_a_terminal_gets_bars_and_the_same_result_line():
    console = Canvas(120, colours=True, file=io.StringIO())
    with Progress(console=console) as progress:
        progress.shares({"env": 1.0, "policy": 1.0})
        with progress.phase("rollout", total=8) as phase:
            phase.counts({"episodes": 4, "successes": 2})
            progress._bars.refresh()
    text = console.file.getvalue()
    assert "4/8" in text
    assert "success 0.50" in text
    assert "env 50% policy 50%" in text
    assert "[1] rollout: 4 of 8, success 0.50" in text
    assert text.rstrip().endswith("\x1b[?25h")  # the cursor is back


def test_clock_sums_and_reports_each_part(monkeypatch):
    now = 100.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    clock = Clock()
    with clock.measure("rollout") as first:
        now += 2.0
    with pytest.raises(RuntimeError), clock.measure("rollout") as second:
        now += 0.5
        raise RuntimeError
    clock.add("start", 3.0)
    clock.add("start", 1.5)
    assert (first.seconds, second.seconds) == (2.0, 0.5)
    assert clock.seconds == {"rollout": 2.5, "start": 4.5}


def test_neither_torch_nor_ray_is_imported():
    code = (
        "import sys; import rlcore.session.progress, rlcore.results.statistics, "
        "rlcore.results.tables, rlcore.results.summary, rlcore.run_folder.folder, "
        "rlcore.run_folder.trackers, rlcore.run_folder.checkpoint; "
        "import rlcore_demonstrations.dataset; "
        "print({'torch', 'ray', 'gymnasium', 'tensorboard'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
