"""Report the progress of a run to the user. Knows names and numbers, not where they come from.

In a terminal a live bar per phase; elsewhere (a log file, CI) one line when a phase ends, and in
a long one a line now and then.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars

from rlcore.terminal.console import Canvas

UPDATE_LINE = {
    "success": ("env/success_once", ".3f"),
    "return": ("env/return", ".3f"),
    "loss": ("train/actor/policy_loss", ".4f"),
    "kl": ("train/actor/approx_kl", ".4f"),
    "clipped": ("train/actor/clip_fraction", ".2f"),
    "value loss": ("train/critic/value_loss", ".4f"),
    "env steps/s": ("rollout/env_steps_per_second", ".0f"),
}
"""What a line about an update shows: `{word: (metric, format)}`."""
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


class Progress:
    """Progress of a run, as a context manager.

        with Progress() as progress:
            with progress.phase("rollout", total=64) as phase:
                phase.advance(8)

    Args:
        console: where to write; standard output if None.
    """

    def __init__(self, console: Canvas | None = None) -> None:
        self._console = console or Canvas()
        self._number = 0
        self._shares = ""
        self._begin = time.perf_counter()
        self._bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[status]}", markup=False),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[shares]}"),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
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
        self._number += 1
        label = f"[{self._number}] {name}"
        task = self._bars.add_task(label, total=total, status="", shares=self._shares)
        begin = time.perf_counter()

        def say(phase: Phase, state: str = "running") -> None:
            self.line(self._result(label, phase, state, time.perf_counter() - begin))

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

    def update_line(self, update: int, total: int, metrics: Mapping[str, float]) -> None:
        """One line per policy update: the metrics of UPDATE_LINE that were measured.

        Also takes the shares of time from `time/env`, `time/policy` and `time/update`.
        """
        self.shares({name: metrics[key] for name, key in SHARES.items() if key in metrics})
        parts = [
            f"{name} {metrics[key]:{style}}"
            for name, (key, style) in UPDATE_LINE.items()
            if not math.isnan(metrics.get(key, math.nan))
        ]
        spent = sum(metrics[key] for key in UPDATE_SECONDS if key in metrics)
        parts.append(f"{spent:.1f} s ({self._shares})" if self._shares else f"{spent:.1f} s")
        if total > update:
            parts.append(f"{(total - update) * spent / 60:.1f} min of training left")
        of = f"/{total}" if total > 0 else ""
        self.line(f"update {update}{of}: {', '.join(parts)}")

    def shares(self, seconds: Mapping[str, float]) -> None:
        """Show from now on where the time goes, e.g. of `{"env": s, "policy": s, "update": s}`."""
        whole = sum(seconds.values())
        if whole > 0:
            parts = (f"{name} {value / whole:.0%}" for name, value in seconds.items())
            self._shares = " ".join(parts)

    def _result(self, label: str, phase: Phase, state: str, seconds: float) -> str:
        """`[2] rollout: 64 of 64, success 0.42, 12.3 s (env 61% policy 20%), 95 s in all`."""
        count = f"{phase.done} of {phase.total}" if phase.total is not None else str(phase.done)
        parts = [count] if phase.done or phase.total else []
        parts += [phase.status] if phase.status else []
        parts += [state] if state else []
        shares = f" ({self._shares})" if self._shares else ""
        parts.append(f"{seconds:.1f} s{shares}")
        return f"{label}: {', '.join(parts)}, {time.perf_counter() - self._begin:.0f} s in all"
