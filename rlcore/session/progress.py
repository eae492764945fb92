"""Report the progress of a run to the user. Knows names and numbers, not where they come from.

In a terminal, and in a notebook that has ipywidgets, a live bar per phase; elsewhere (a log file,
CI) one line when a phase ends, and in a long one a line now and then.
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

from rlcore.terminal.console import Canvas
from rlcore.terminal.text import duration

UPDATE_LINE = {
    "success": ("env/success_once", ".3f"),
    "KL": ("train/actor/approx_kl", ".4f"),
    "return": ("env/return", ".3f"),
    "loss": ("train/actor/policy_loss", ".4f"),
    "clipped": ("train/actor/clip_fraction", ".2f"),
    "value loss": ("train/critic/value_loss", ".4f"),
    "env steps/s": ("rollout/env_steps_per_second", ".0f"),
}
"""What a line about an update shows: `{word: (metric, format)}`."""
ALWAYS = ("success", "KL")
"""What it shows of that without `runner.logger.verbose`, so that it holds in 80 columns."""
STEPS = "train/actor/optimizer_steps"
SKIPPED_STEPS = "train/actor/skipped_steps"
BAR_WIDTH = 12
UPDATE_SECONDS = ("time/rollout", "time/update", "time/sync")
SHARES = {"env": "time/env", "policy": "time/policy", "update": "time/update"}


QUIET_SECONDS = 60.0
"""Without a terminal, a phase that goes on for longer says where it stands."""


class Stopwatch:
    """Wall seconds of one block, known when it ends (0.0 until then)."""

    def __init__(self) -> None:
        self.seconds = 0.0


class Clock:
    """Wall seconds per named phase, summed over its repetitions; `seconds` of `summary.json`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def measure(self, phase: str) -> Iterator[Stopwatch]:
        """Time the block as (a further part of) `phase`, also when it raises."""
        watch, begin = Stopwatch(), time.perf_counter()
        try:
            yield watch
        finally:
            watch.seconds = time.perf_counter() - begin
            self.add(phase, watch.seconds)

    def add(self, phase: str, seconds: float) -> None:
        """Add seconds that were measured elsewhere."""
        self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds


class Phase:
    """One phase under way; made by :meth:`Progress.phase`."""

    def __init__(
        self,
        total: int | None,
        bars: Bars,
        task: TaskID,
        say: Callable[[Phase], None],
    ) -> None:
        self.total = total
        self.done = 0
        self.note_text = ""
        self._successes: int | None = None
        self._bars = bars
        self._task = task
        self._say = say
        self._said = time.monotonic()

    def advance(self, count: int = 1) -> None:
        """`count` more units are done."""
        self.set(self.done + count)

    def counts(self, totals: Mapping[str, float]) -> None:
        """Take over running totals `{"episodes", "successes"}`, as the workers report them."""
        if {"episodes", "successes"} <= totals.keys():
            self.set(int(totals["episodes"]), int(totals["successes"]))

    def note(self, text: str) -> None:
        """Show a few words beside the bar, e.g. the present loss."""
        self.set(self.done, note=text)

    def set(self, done: int, successes: int | None = None, note: str | None = None) -> None:
        """`done` units are done in all; None leaves the rest as it was."""
        self.done = done
        self._successes = successes if successes is not None else self._successes
        self.note_text = note if note is not None else self.note_text
        self._bars.update(self._task, completed=self.done, status=self.status)
        if self._bars.disable and time.monotonic() - self._said >= QUIET_SECONDS:
            self._said = time.monotonic()
            self._say(self)

    @property
    def status(self) -> str:
        """Success so far and the note, e.g. `"success 0.42, loss 0.1"`."""
        parts = []
        if self._successes is not None and self.done:
            parts.append(f"success {self._successes / self.done:.2f}")
        return ", ".join([*parts, self.note_text] if self.note_text else parts)


class _Stand(ProgressColumn):
    """`4 of 8, 12 s, left 10 s, success 0.50`: what a narrow terminal cuts is at the end."""

    def render(self, task: Task) -> Text:
        parts = [] if task.total is None else [f"{task.completed:.0f} of {task.total:.0f}"]
        parts.append(duration(task.elapsed or 0.0))
        parts += [] if task.time_remaining is None else [f"left {duration(task.time_remaining)}"]
        return Text(", ".join([*parts, *filter(None, [task.fields["status"]])]))


class Progress:
    """Progress of a run, as a context manager.

        with Progress() as progress:
            with progress.phase("rollout", total=64) as phase:
                phase.advance(8)

    Args:
        console: where to write; standard output if None.
        verbose: show all there is of an update.
    """

    def __init__(self, console: Canvas | None = None, *, verbose: bool = False) -> None:
        self._console = console or Canvas()
        self._verbose = verbose
        self._begin = time.perf_counter()
        notebook = self._console.is_jupyter and find_spec("ipywidgets") is not None
        self._bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(BAR_WIDTH),
            _Stand(Column(no_wrap=True)),
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
        """A phase of `total` units (episodes, steps); its result is printed when it ends.

        Args:
            quiet: print it only if the phase was stopped, where a line of its own follows.
        """
        task = self._bars.add_task(name, total=total, status="")
        begin = time.perf_counter()

        def say(phase: Phase, state: str = "running") -> None:
            self.line(self._result(name, phase, state, time.perf_counter() - begin))

        phase = Phase(total, self._bars, task, say)
        ended = "stopped"
        try:
            yield phase
            ended = ""
        finally:
            self._bars.remove_task(task)
            if ended or not quiet:
                say(phase, ended)

    def line(self, text: str) -> None:
        """One line that stays, above the bars."""
        self._console.print(text, soft_wrap=True)

    def update_line(
        self, update: int, total: int, metrics: Mapping[str, float], evaluating: float = 0.0
    ) -> None:
        """One line per policy update: the metrics of UPDATE_LINE that were measured, and if verbose
        where the time went.

        Args:
            evaluating: seconds of the evaluations that are still to come.
        """
        parts = [
            f"{name} {metrics[key]:{style}}"
            for name, (key, style) in UPDATE_LINE.items()
            if (self._verbose or name in ALWAYS) and math.isfinite(metrics.get(key, math.nan))
        ]
        skipped = metrics.get(SKIPPED_STEPS, 0.0)
        if skipped:
            parts.append(f"skipped {skipped:.0f}/{skipped + metrics[STEPS]:.0f} steps")
        spent = sum(metrics[key] for key in UPDATE_SECONDS if key in metrics)
        parts += [duration(spent)] if self._verbose else []
        used = {name: metrics[key] for name, key in SHARES.items() if key in metrics}
        if self._verbose and (whole := sum(used.values())) > 0:
            parts += [f"{name} {seconds / whole:.0%}" for name, seconds in used.items()]
        parts.append(self._elapsed())
        if total > 0:
            parts.append(f"left {duration((total - update) * spent + evaluating)}")
        of = f"/{total}" if total > 0 else ""
        self.line(f"update {update}{of}: {', '.join(parts)}")

    def _elapsed(self) -> str:
        return f"elapsed {duration(time.perf_counter() - self._begin)}"

    def _result(self, label: str, phase: Phase, state: str, seconds: float) -> str:
        """`evaluate (after): 64 of 64, success 0.42, 12 s, elapsed 3 min 5 s`."""
        count = f"{phase.done} of {phase.total}" if phase.total is not None else str(phase.done)
        parts = [count] if phase.done or phase.total else []
        parts += [phase.status] if phase.status else []
        parts += [state] if state else []
        return f"{label}: {', '.join([*parts, duration(seconds), self._elapsed()])}"
