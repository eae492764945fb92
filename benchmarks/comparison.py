"""Algorithms against imitation, from one start each seed: plays what is missing, writes it up.

    python benchmarks/comparison.py [--seeds 0 1 2] [--arms rft ppo ...] [--runs FOLDER] [--table]

A start is supervised training on the recipe's demonstrations. From it each arm trains, and the
control goes on with supervised training for as many samples as the arm that did most work
(:mod:`rlcore.training.control_work`). A second control imitates, from the same start, the
demonstrations and all own successes of RFT, for as many samples as RFT's work. All of them play the
same held-out starts, several times each with other noise.
Runs that are finished are read back; --table plays nothing. Writes docs/results/comparison.md and
its picture.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlcore_tools.report.chart import Point, Series, chart

from rlcore.api import SavedRun, open_run
from rlcore.plugins.registry import load_plugins
from rlcore.runs.levels import EPISODES
from rlcore.runs.statistics import (
    Difference,
    Passes,
    SuccessRate,
    paired_difference,
    success_rate,
)
from rlcore.runs.tables import success_by_start
from rlcore.training.control_work import ControlWork

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/results/comparison.md"
RECIPE = "quickstart"
RECIPES = {"expo with shift": "quickstart_expo"}
"""Arms that have a recipe of their own, from the same start."""
NOTES = ROOT / "docs/results/comparison/notes.md"
"""What was measured besides, written by hand; stands at the end of the page."""
CONTROL = "control"
OWN = "own successes"
CONTROLS = (CONTROL, OWN)
PASSES = 2
ARMS: dict[str, Sequence[str]] = {
    "rft": ("runner.val_check_interval=4",),
    "rft without shift": ("algorithm.episode_shift=0",),
    "ppo": (
        "algorithm=ppo",
        "algorithm.gamma=0.97",
        "algorithm.update_epoch=4",
        "algorithm.critic_warmup_updates=1",
        "actor.optim.lr=1e-4",
        "actor.optim.value_lr=5e-4",
        "actor.optim.lr_scheduler=constant",
        "actor.optim.lr_warmup_steps=20",
        "actor.model.openpi.noise_level=1.0",
    ),
    "expo": ("algorithm=expo",),
    "expo with shift": ("runner.val_check_interval=4",),
    "dsrl": ("algorithm=dsrl",),
}
"""Words of each algorithm besides the recipe's; those that are not installed are left out."""
COMMON = (
    f"env.eval.rollout_epoch={PASSES}",
    "env.eval.video_cfg.save_video=false",
    "runner.logger.logger_backends=[]",
    "runner.val_before_train=false",
)

Outcomes = Mapping[tuple[str, int], Passes]


class Seed:
    """The runs of one seed, by name: `start`, the arms, the control."""

    def __init__(self, runs: Path, seed: int, extra: Sequence[str]) -> None:
        self.runs, self.number, self._extra = runs, seed, extra

    def path(self, name: str) -> Path:
        return self.runs / f"{name.replace(' ', '_')}-{self.number}"

    def done(self, name: str) -> bool:
        return (self.path(name) / "summary.json").is_file()

    def play(self, arms: Sequence[str]) -> None:
        """All that is not there yet."""
        self._run("start", "sft", ())
        start = self.path("start")
        begun = (
            f"actor.model.model_path={start / 'sft'}",
            f"collect.path={start / 'demonstrations'}",
        )
        for arm in arms:
            self._run(arm, "train", ("sft.enabled=false", *begun, *ARMS[arm]))
        if "rft" in arms:  # the same training once more: a control begins where its run did
            demonstrations = f"collect.path={start / 'demonstrations'}"
            self._run(OWN, "train", (demonstrations, "sft.control=own_successes"))
        samples = max((work_of(self, arm).samples for arm in arms if self.done(arm)), default=0)
        if samples and not self.done(CONTROL):
            history = json.loads((open_run(start).folder.path / "sft.json").read_text())
            steps = math.ceil(samples / history["batch_size"])
            self._run(CONTROL, "sft", (*begun, f"sft.max_steps={steps}"))

    def _run(self, name: str, verb: str, words: Sequence[str]) -> None:
        if self.done(name):
            return
        where = (
            f"runner.logger.log_path={self.runs}",
            f"runner.logger.experiment_name={self.path(name).name}",
            f"runner.seed={self.number}",
        )
        command = [verb, RECIPES.get(name, RECIPE), *COMMON, *words, *where, *self._extra]
        print("rlcore", *command, flush=True)
        subprocess.run([sys.executable, "-m", "rlcore.cli.main", *command], check=True)

    def outcomes(self, name: str) -> Outcomes:
        """The held-out starts of a run at its end."""
        label = {"start": "sft", CONTROL: "sft", OWN: "control"}.get(name, "after")
        return success_by_start(open_run(self.path(name)).evaluations()[label].episodes)


def summary_of(seed: Seed, name: str) -> dict[str, Any]:
    """What a finished run says of itself."""
    summary: dict[str, Any] = json.loads((seed.path(name) / "summary.json").read_text())
    return summary


def work_of(seed: Seed, name: str) -> ControlWork:
    """What a finished run did, counted."""
    run, summary = open_run(seed.path(name)), summary_of(seed, name)
    return ControlWork.of_run(
        run.metrics(),
        env_steps=summary["env_steps"],
        episodes=summary["episodes"],
        num_action_chunks=run.config().actor.model.num_action_chunks,
    )


def training_seconds(seed: Seed, name: str) -> float:
    """Wall seconds of a run's training."""
    seconds = summary_of(seed, name)["seconds"]
    parts = ("control",) if name == OWN else ("rollout", "update", "sync", "sft")
    return sum(seconds.get(part, 0.0) for part in parts)


def kinds(outcomes: Outcomes) -> str:
    """How many starts never, sometimes and always succeed."""
    found = Counter(
        "never" if not any(each) else "always" if all(each) else "sometimes"
        for each in outcomes.values()
    )
    return " / ".join(str(found[kind]) for kind in ("never", "sometimes", "always"))


def curve(run: SavedRun) -> Iterator[tuple[float, float, float]]:
    """(episodes, seconds, success): of training, over the last updates with enough episodes."""
    episodes = seconds = 0.0
    late: list[tuple[float, float]] = []
    for line in run.metrics():
        seconds += sum(line.get(f"time/{part}") or 0.0 for part in ("rollout", "update", "sync"))
        played, rate = line.get("env/episodes"), line.get("env/success_once")
        if not played or rate is None:
            continue
        episodes += played
        late.append((played, rate))
        while sum(n for n, _ in late) - late[0][0] >= EPISODES:
            late.pop(0)
        total = sum(n for n, _ in late)
        yield episodes, seconds, sum(n * rate for n, rate in late) / total


def page(seeds: Sequence[Seed], arms: Sequence[str]) -> str:
    """The page, of what has been played."""
    rows, judged = [], []
    for seed in seeds:
        if not seed.done("start"):
            continue
        before = seed.outcomes("start")
        controls = {name: seed.outcomes(name) for name in CONTROLS if seed.done(name)}
        rate = success_rate([*before.values()])
        rows.append(f"| {seed.number} | start | {shown(rate)} | | | | | | {kinds(before)} |")
        for name in (*CONTROLS, *arms):
            if not seed.done(name):
                continue
            after = seed.outcomes(name)
            summary = summary_of(seed, name)
            gains = {
                control: paired_difference(outcomes, after)
                for control, outcomes in controls.items()
                if name not in CONTROLS
            }
            against = " | ".join(
                shown_gain(gains[each]) if each in gains else "" for each in CONTROLS
            )
            for control, gain in gains.items():
                judged.append((control, f"{name} of seed {seed.number}", gain))
            at = summary.get("reached", {}).get("0.8") if name != OWN else None
            rows.append(
                f"| {seed.number} | {name} | {shown(success_rate([*after.values()]))} "
                f"| {shown_gain(paired_difference(before, after))} | {against} "
                f"| {summary['episodes']} | {training_seconds(seed, name):.0f}"
                + (f" (0.8 in training after {at['episodes']} episodes)" if at else "")
                + f" | {kinds(after)} |"
            )
    said = "\n\n".join(
        sentence(title, [(name, gain) for one, name, gain in judged if one == control])
        for control, title in (
            (CONTROL, "The control that goes on with the demonstrations"),
            (OWN, "The one that imitates RFT's successes too"),
        )
    )
    notes = NOTES.read_text() if NOTES.is_file() else ""
    return TEXT.format(
        said=said,
        rows="\n".join(rows),
        passes=PASSES,
        recipe=RECIPE,
        columns=" | ".join(COLUMNS),
        notes=f"\n{notes}" if notes else "",
    )


def sentence(control: str, gains: Sequence[tuple[str, Difference]]) -> str:
    """Where a control wins, and where it loses."""
    won = [name for name, gain in gains if gain.hi < 0]
    lost = sum(gain.lo > 0 for _, gain in gains)
    return (
        f"{control} wins against {', '.join(won) or 'none'}, with the interval off zero, and loses "
        f"against {lost} of {len(gains)} runs."
    )


def shown(rate: SuccessRate) -> str:
    return f"{rate.rate:.3f} [{rate.lo:.3f}, {rate.hi:.3f}]"


def shown_gain(gain: Difference) -> str:
    return f"{gain.mean:+.3f} [{gain.lo:+.3f}, {gain.hi:+.3f}]"


TEXT = """# Algorithms against imitation, from the same starts

{said}

```
python benchmarks/comparison.py
```

`rlcore train {recipe}`: each seed has one start, supervised training on its demonstrations; from it
each arm trains. The control goes on with supervised training on the same demonstrations, for as
much [counted work](../evaluation.md#controls) as the arm that did most, its rate falling to 0.
`own successes` (`sft.control=own_successes`) begins there too and imitates the demonstrations and
what RFT had succeeded with by its end, half of a batch each, for as much work as RFT's. All
play the same held-out starts, {passes} times each with other noise; 95% intervals: Wilson for
rates, Newcombe's method 10 for paired differences. The last column counts the starts that never,
sometimes and always succeed.

| {columns} |
|---|---|---|---|---|---|---|---|---|
{rows}

Success in training, over at least 96 episodes of the last updates, against episodes and against
seconds. Training explores, and RFT's shifted episodes succeed less often than its policy does:

![success against episodes](comparison/episodes.svg)

![success against seconds](comparison/seconds.svg)
{notes}"""
COLUMNS = (
    "seed", "arm", "success", "to its start, paired", "to the control, paired",
    "to own successes, paired", "episodes", "seconds", "never / sometimes / always",
)  # fmt: skip


def pictures(seeds: Sequence[Seed], arms: Sequence[str]) -> None:
    """Success against episodes and against seconds, a colour an arm, a line a seed."""
    folder = PAGE.with_suffix("")
    folder.mkdir(exist_ok=True)
    for index, what in enumerate(("episodes", "seconds")):
        series = [
            Series(
                f"{arm}, seed {seed.number}",
                [Point(each[index], each[2]) for each in curve(open_run(seed.path(arm)))],
                colour=number,
            )
            for number, arm in enumerate(arms)
            for seed in seeds
            if seed.done(arm)
        ]
        label = f"success in training against {what}"
        drawn = chart(series, width=640, height=320, label=label, x_label=what, y_range=(0.0, 1.0))
        (folder / f"{what}.svg").write_text(styled(str(drawn), arms))


def styled(svg: str, arms: Sequence[str]) -> str:
    """A picture that stands alone: its colours, and whose they are."""
    colours = ("#0072b2", "#56b4e9", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
    style = ".rule{stroke:#ddd}.curve{fill:none;stroke-width:2}.hover{opacity:0}" + "".join(
        f".c{number} .curve{{stroke:{colour}}}" for number, colour in enumerate(colours)
    )
    names = "".join(
        f'<text x="60" y="{26 + 16 * number}" fill="{colours[number]}">{arm}</text>'
        for number, arm in enumerate(arms)
    )
    head = svg.index(">") + 1
    opening = svg[: head - 1].replace(
        "<svg ", '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="12" '
    )
    ground = '<rect width="640" height="320" fill="#fff"/>'
    drawn = svg[head:].removesuffix("</svg>")
    return f"{opening}><style>{style}</style>{ground}{drawn}{names}</svg>"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--runs", type=Path, default=ROOT / "logs/comparison")
    parser.add_argument("--table", action="store_true", help="play nothing")
    parser.add_argument("overrides", nargs="*", help="further changes of all runs, after --")
    options = parser.parse_args()
    known = load_plugins().names("algorithm")
    arms = [arm for arm in options.arms if arm.split()[0] in known]
    seeds = [Seed(options.runs.absolute(), seed, options.overrides) for seed in options.seeds]
    for seed in () if options.table else seeds:
        seed.play(arms)
    PAGE.write_text(page(seeds, arms))
    pictures(seeds, arms)
    print(PAGE)


if __name__ == "__main__":
    main()
