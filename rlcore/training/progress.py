"""Report the progress of a run to the user.

A terminal, or a notebook with ipywidgets, shows a live bar per phase. Elsewhere (a log file, CI)
one line is printed when a phase ends, and in a long phase one every :data:`QUIET_SECONDS`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec

from rich.progress import BarColumn, ProgressColumn, Task, TaskID, TextColumn
from rich.progress import Progress as Bars
from rich.table import Column
from rich.text import Text

from rlcore.utils.console import Canvas
from rlcore.utils.durations import update_seconds
from rlcore.utils.spans import OFF, Spans
from rlcore.utils.text import format_duration

UPDATE_LINE = {
    "success": ("env/success_once", ".3f"),
    "KL": ("train/actor/approx_kl", ".4f"),
    "return": ("env/return", ".3f"),
    "loss": ("train/actor/policy_loss", ".4f"),
    "clipped": ("train/actor/clip_fraction", ".2f"),
    "value loss": ("train/critic/value_loss", ".4f"),
    "env steps/s": ("rollout/env_steps_per_second", ".0f"),
}
"""Metrics in the line about an update: `{label: (metric, format)}`."""
ALWAYS = ("success", "KL")
"""Labels that are shown without `runner.logger.verbose`, so that a line fits in 80 columns."""
STEPS = "train/actor/optimizer_steps"
SKIPPED_STEPS = "train/actor/skipped_steps"
BAR_WIDTH = 12
SHARES = {"env": "time/env", "policy": "time/policy", "update": "time/update"}


QUIET_SECONDS = 60.0
"""Minimum time between two lines about a running phase, where there are no live bars."""


class Stopwatch:
    """Wall-clock time of one block in seconds, set when the block ends (0.0 until then)."""

    def __init__(self) -> None:
        self.seconds = 0.0


class Clock:
    """Wall-clock time per named phase, summed over repetitions; `seconds` in `summary.json`.

    Args:
        spans: recorder to which phases are added as spans of the row "phases".

    Attributes:
        seconds: seconds by phase.
    """

    def __init__(self, spans: Spans = OFF) -> None:
        self.seconds: dict[str, float] = {}
        self._spans = spans

    @contextmanager
    def measure(self, phase: str) -> Iterator[Stopwatch]:
        """Add the block's time to that of `phase`, also if the block raises."""
        watch = Stopwatch()
        begin = time.perf_counter()
        try:
            with self._spans.measure("phases", phase):
                yield watch
        finally:
            watch.seconds = time.perf_counter() - begin
            self.add(phase, watch.seconds)

    def add(self, phase: str, seconds: float) -> None:
        """Add seconds that were measured elsewhere to those of `phase`."""
        self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds


class Phase:
    """A running phase; created by :meth:`Progress.phase`.

    Attributes:
        total: number of units (episodes, steps), None if unknown.
        done: units done so far.
        note_text: the text that :meth:`note` has set.
    """

    def __init__(
        self,
        total: int | None,
        bars: Bars,
        task: TaskID,
        print_line: Callable[[Phase], None],
    ) -> None:
        self.total = total
        self.done = 0
        self.note_text = ""
        self._successes: int | None = None
        self._bars = bars
        self._task = task
        self._print = print_line
        self._last_printed = time.monotonic()

    def advance(self, count: int = 1) -> None:
        """Count `count` more units as done."""
        self.set(self.done + count)

    def counts(self, totals: Mapping[str, float]) -> None:
        """Set the running totals `{"episodes", "successes"}` that workers report; ignore others."""
        if {"episodes", "successes"} <= totals.keys():
            self.set(int(totals["episodes"]), int(totals["successes"]))

    def note(self, text: str) -> None:
        """Show a short text next to the bar, e.g. the current loss."""
        self.set(self.done, note=text)

    def set(self, done: int, successes: int | None = None, note: str | None = None) -> None:
        """Set the state of the phase, and print a line if one is due and there is no bar.

        Args:
            done: units done so far.
            successes: successful episodes so far; None: unchanged.
            note: text next to the bar; None: unchanged.
        """
        self.done = done
        self._successes = successes if successes is not None else self._successes
        self.note_text = note if note is not None else self.note_text
        self._bars.update(self._task, completed=self.done, status=self.status)
        if self._bars.disable and time.monotonic() - self._last_printed >= QUIET_SECONDS:
            self._last_printed = time.monotonic()
            self._print(self)

    @property
    def status(self) -> str:
        """Success rate so far and the note, e.g. `"success 0.42, loss 0.1"`."""
        parts = []
        if self._successes is not None and self.done:
            parts.append(f"success {self._successes / self.done:.2f}")
        return ", ".join([*parts, self.note_text] if self.note_text else parts)


class _StatusColumn(ProgressColumn):
    """Column `4 of 8, 12 s, left 10 s, success 0.50`.

    A narrow terminal cuts the end, so the least important part comes last.
    """

    def render(self, task: Task) -> Text:
        parts = [] if task.total is None else [f"{task.completed:.0f} of {task.total:.0f}"]
        parts.append(format_duration(task.elapsed or 0.0))
        parts += (
            [] if task.time_remaining is None else [f"left {format_duration(task.time_remaining)}"]
        )
        return Text(", ".join([*parts, *filter(None, [task.fields["status"]])]))


class Progress:
    """Progress of a run, as a context manager.

        with Progress() as progress:
            with progress.phase("rollout", total=64) as phase:
                phase.advance(8)

    Args:
        console: where to write; standard output if None.
        verbose: whether lines about updates show all metrics and where the time went.
    """

    def __init__(self, console: Canvas | None = None, *, verbose: bool = False) -> None:
        self._console = console or Canvas()
        self._verbose = verbose
        self._begin = time.perf_counter()
        notebook = self._console.is_jupyter and find_spec("ipywidgets") is not None
        self._bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(BAR_WIDTH),
            _StatusColumn(Column(no_wrap=True)),
            console=self._console,
            transient=True,
            disable=not (self._console.is_terminal or notebook) or self._console.is_dumb_terminal,
        )

    def __enter__(self) -> Progress:
        self._bars.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bars.stop()

    @contextmanager
    def phase(self, name: str, total: int | None = None, *, quiet: bool = False) -> Iterator[Phase]:
        """Show a phase, and print its result when it ends.

        Args:
            name: name of the phase.
            total: number of units (episodes, steps), None if unknown.
            quiet: print the result only if the phase raised; for a caller that prints its own.
        """
        task = self._bars.add_task(name, total=total, status="")
        begin = time.perf_counter()

        def print_result(phase: Phase, state: str = "running") -> None:
            self.line(self._result(name, phase, state, time.perf_counter() - begin))

        phase = Phase(total, self._bars, task, print_result)
        outcome = "stopped"
        try:
            yield phase
            outcome = ""
        finally:
            self._bars.remove_task(task)
            if outcome or not quiet:
                print_result(phase, outcome)

    def line(self, text: str) -> None:
        """Print a permanent line above the bars."""
        self._console.print(text, soft_wrap=True)

    def update_line(
        self, update: int, total: int, metrics: Mapping[str, float], evaluating: float = 0.0
    ) -> None:
        """Print the line about a policy update.

        It shows the finite metrics of :data:`UPDATE_LINE`, skipped optimizer steps, and the elapsed
        and remaining time. If verbose, it also shows where the time of the update went.

        Args:
            update: number of updates done.
            total: number of updates of the run, or -1 without a limit; the remaining time is then
                left out.
            metrics: metrics of the update.
            evaluating: estimated seconds of the remaining evaluations.
        """
        parts = [
            f"{name} {metrics[key]:{style}}"
            for name, (key, style) in UPDATE_LINE.items()
            if (self._verbose or name in ALWAYS) and math.isfinite(metrics.get(key, math.nan))
        ]
        skipped = metrics.get(SKIPPED_STEPS, 0.0)
        if skipped:
            parts.append(f"skipped {skipped:.0f}/{skipped + metrics[STEPS]:.0f} steps")
        spent = update_seconds(metrics)
        parts += [format_duration(spent)] if self._verbose else []
        seconds_by_share = {name: metrics[key] for name, key in SHARES.items() if key in metrics}
        if self._verbose and (total_seconds := sum(seconds_by_share.values())) > 0:
            parts += [
                f"{name} {seconds / total_seconds:.0%}"
                for name, seconds in seconds_by_share.items()
            ]
        parts.append(self._elapsed())
        if total > 0:
            parts.append(f"left {format_duration((total - update) * spent + evaluating)}")
        of_total = f"/{total}" if total > 0 else ""
        self.line(f"update {update}{of_total}: {', '.join(parts)}")

    def _elapsed(self) -> str:
        return f"elapsed {format_duration(time.perf_counter() - self._begin)}"

    def _result(self, label: str, phase: Phase, state: str, seconds: float) -> str:
        """Return e.g. `evaluate (after): 64 of 64, success 0.42, 12 s, elapsed 3 min 5 s`."""
        count = f"{phase.done} of {phase.total}" if phase.total is not None else str(phase.done)
        parts = [count] if phase.done or phase.total else []
        parts += [phase.status] if phase.status else []
        parts += [state] if state else []
        return f"{label}: {', '.join([*parts, format_duration(seconds), self._elapsed()])}"
