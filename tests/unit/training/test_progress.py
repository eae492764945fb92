"""Progress: a line per event without a terminal, bars with one, seconds that add up."""

import io
import re
import time

import pytest

from rlcore.training.progress import Clock, Progress
from rlcore.utils.console import Canvas


@pytest.fixture
def plain():
    return Canvas(60, colours=False, file=io.StringIO())


def lines(console):
    return console.file.getvalue().splitlines()


def test_a_phase_is_one_line_without_a_terminal(plain):
    with Progress(console=plain) as progress:
        with progress.phase("rollout", total=64) as phase:
            for played in range(1, 17):
                phase.counts({"episodes": 4 * played, "successes": played})
            assert lines(plain) == []  # nothing per chunk
        with progress.phase("update") as phase:
            phase.note("loss 0.10")
        progress.line("kept [as it is]")
    first, second, third = lines(plain)
    assert re.fullmatch(r"rollout: 64 of 64, success 0\.25, 0\.\d s, elapsed 0\.\d s", first)
    assert re.fullmatch(r"update: loss 0\.10, 0\.\d s, elapsed 0\.\d s", second)
    assert third == "kept [as it is]"


@pytest.mark.parametrize("dumb", [False, True])
def test_a_long_phase_prints_its_progress_every_minute(plain, monkeypatch, dumb):
    """In a log, and in a terminal that can't move its cursor."""
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    if dumb:
        monkeypatch.setenv("TERM", "dumb")
        plain = Canvas(60, colours=True, file=io.StringIO())
    with Progress(console=plain) as progress, progress.phase("sft", total=400) as phase:
        for step in range(1, 301):  # a second each
            now += 1.0
            phase.set(step, note=f"loss {1 / step:.4f}")
    running = lines(plain)[:-1]
    last = lines(plain)[-1]
    # after every 60 s, of which there are 5
    assert [line.partition(", running, ")[0] for line in running] == [
        f"sft: {step} of 400, loss {1 / step:.4f}" for step in range(60, 301, 60)
    ]
    assert last.startswith("sft: 300 of 400, loss 0.0033, ")


def test_running_totals_replace_counts(plain):
    with Progress(console=plain) as progress, progress.phase("evaluate", total=10) as phase:
        phase.counts({"episodes": 4, "successes": 1})
        phase.counts({"episodes": 10, "successes": 7})
        phase.counts({"messages": 3})
        assert phase.status == "success 0.70"
    assert lines(plain)[0].startswith("evaluate: 10 of 10, success 0.70")


def test_a_phase_that_raises_is_printed_as_stopped(plain):
    with (
        pytest.raises(KeyboardInterrupt),
        Progress(console=plain) as progress,
        progress.phase("rollout", total=4) as phase,
    ):
        phase.advance()
        raise KeyboardInterrupt
    assert "1 of 4, stopped" in lines(plain)[0]


def test_an_update_line_fits_in_80_columns_and_has_more_if_verbose(plain, monkeypatch):
    monkeypatch.setattr(time, "perf_counter", lambda: 3600.0)
    metrics = {"env/success_once": 0.5, "train/actor/approx_kl": 0.01234, "env/return": 7.0}
    metrics |= {"time/env": 3.0, "time/update": 1.0, "time/rollout": 5.0}
    without = metrics | {"train/actor/approx_kl": float("nan")}
    Progress(console=plain).update_line(3, 10, metrics, 130.0)
    Progress(console=plain).update_line(9998, -1, without)
    Progress(console=plain, verbose=True).update_line(3, 10, metrics)
    short, endless, full = lines(plain)
    # 5 s of rollout and 1 s of update, 7 more of them, and 130 s of evaluations: 172 s
    assert short == "update 3/10: success 0.500, KL 0.0123, elapsed 0.0 s, left 2 min 52 s"
    assert endless == "update 9998: success 0.500, elapsed 0.0 s"
    assert full == (
        "update 3/10: success 0.500, KL 0.0123, return 7.000, 6.0 s, env 75%, update 25%, "
        "elapsed 0.0 s, left 42 s"
    )


def test_an_update_line_counts_skipped_steps(plain, monkeypatch):
    monkeypatch.setattr(time, "perf_counter", lambda: 3600.0)
    metrics = {"train/actor/approx_kl": 0.0, "train/actor/optimizer_steps": 3.0}
    Progress(console=plain).update_line(1, -1, metrics | {"train/actor/skipped_steps": 2.0})
    Progress(console=plain).update_line(2, -1, metrics | {"train/actor/skipped_steps": 0.0})
    assert lines(plain) == [
        "update 1: KL 0.0000, skipped 2/5 steps, elapsed 0.0 s",
        "update 2: KL 0.0000, elapsed 0.0 s",
    ]


def test_a_terminal_gets_bars_and_the_same_result_line():
    console = Canvas(120, colours=True, file=io.StringIO())
    with Progress(console=console) as progress, progress.phase("rollout", total=8) as phase:
        phase.counts({"episodes": 4, "successes": 2})
        progress._bars.refresh()
    text = console.file.getvalue()
    assert re.search(r"4 of 8, 0\.\d s, (left \S+ s, )?success 0\.50", text)
    assert "rollout: 4 of 8, success 0.50" in text
    assert text.rstrip().endswith("\x1b[?25h")  # the cursor is back


def test_a_narrow_terminal_cuts_the_end_of_a_bar_and_a_phase_without_a_total_has_no_time_left():
    console = Canvas(30, colours=True, file=io.StringIO())
    with Progress(console=console) as progress, progress.phase("sft", total=8) as phase:
        phase.set(4, note="loss 0.1234567890")
        progress._bars.refresh()
        with progress.phase("update 1"):
            progress._bars.refresh()
    drawn = [re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", line) for line in lines(console)]
    cut = [line for line in drawn if "4 of 8" in line and "elapsed" not in line]
    assert cut and all(len(line) <= 30 and line.rstrip().endswith("…") for line in cut)
    assert any(re.fullmatch(r"upd\S* ?1? [━╺╸ ]*0\.\d s *", line) for line in drawn)


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


@pytest.mark.parametrize("widgets", [True, False])
def test_a_notebook_has_a_bar_where_it_can_draw_one(monkeypatch, widgets):
    monkeypatch.setattr(
        "rlcore.training.progress.find_spec", lambda name: name if widgets else None
    )
    console = Canvas(file=io.StringIO())
    console.is_jupyter = True
    assert Progress(console=console)._bars.disable is not widgets
