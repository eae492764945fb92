"""Check whether the hooks of a plugin meet the contract of :mod:`rlcore.contracts.hookspecs`.

    class TestMyPlugin(HookConformance):
        name = "my_plugin"

Hooks are called in the order of a run, with a fake run of a few updates.
"""

from __future__ import annotations

import copy
import importlib
import subprocess
import sys
import tempfile
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from rlcore.config.bind import plugin_settings
from rlcore.config.schema import RunConfig
from rlcore.contracts.episodes import EpisodeOutcome, Footage, LabelledFootage
from rlcore.contracts.run import Run, Steering
from rlcore.contracts.specs import Episode
from rlcore.plugins.registry import load_plugins
from rlcore_testing.conformance.base import Conformance, require

UPDATES = 6
TASKS = ("reach-left", "reach-right")
ROWS = {"name", "status", "detail", "fix"}
STATUSES = ("ok", "warning", "missing", "refused")


class HookConformance(Conformance):
    """Checks of a plugin's hooks. Set `name` to that of its entry point."""

    kind: ClassVar[Any] = "hook"
    test_every_key_of_its_settings_has_a_help_text = None  # type: ignore[assignment]  # it has none
    test_settings_and_facts_load_nothing_heavy = None  # type: ignore[assignment]  # nor facts

    def module(self) -> Any:
        """Return the plugin's module."""
        module = load_plugins().manager.get_plugin(self.name)
        assert module is not None, (
            f"there is no plugin {self.name!r} that could be loaded"
            "\n  hint: rlcore plugins says why"
        )
        return module

    def call(self, hook: str, **arguments: Any) -> Any:
        """Call a hook of this plugin alone, if it has it; return the results."""
        manager = load_plugins().manager
        others = [plugin for plugin in manager.get_plugins() if plugin is not self.module()]
        return manager.subset_hook_caller(hook, others)(**arguments)

    def run(self, folder: str, steering: Steering | None = None) -> Run:
        """Return a run before its first update."""
        config = RunConfig(plugins=plugin_settings(load_plugins().settings))
        steering = steering or Steering()
        return Run(config, Path(folder), TASKS, steering=steering, say=lambda text: None)

    def play(self, run: Run, updates: range) -> list[dict[str, float]]:
        """Call the hooks of some updates; return the metrics as the hooks left them."""
        left = []
        for update in updates:
            rollout = {"env/success_once": 0.25 + 0.01 * (update % 3), "rollout/steps": 64.0}
            training = {"train/actor/approx_kl": 0.02, "train/actor/policy_loss": 0.1}
            evaluation = {"eval/success_once": 0.5, "eval/return": 1.0}
            seen = {"run": run, "films": films()}
            self.call("rlcore_after_rollout", outcomes=outcomes(update), metrics=rollout, **seen)
            object.__setattr__(run, "update", update + 1)
            self.call("rlcore_after_update", run=run, metrics=training)
            label = f"step_{update + 1:06d}"
            self.call("rlcore_after_eval", label=label, metrics=evaluation, **seen)
            left += [rollout, training, evaluation]
        return left

    def test_a_run_can_be_played_with_them(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            run = self.run(folder)
            for metrics in self.play(run, range(UPDATES)):
                odd = {
                    name: value
                    for name, value in metrics.items()
                    if not (isinstance(name, str) and isinstance(value, Real))
                    or isinstance(value, bool)
                }
                hint = "metrics[name] = float(value)"
                require("what a hook added besides names and numbers", odd, {}, hint)
            self.call("rlcore_after_run", run=run, summary={"success_after": {"rate": 0.5}})

    def test_what_they_decide_does_not_depend_on_a_resume(self) -> None:
        """A resumed run has the values of `run.store`, but is a new process."""
        with tempfile.TemporaryDirectory() as folder:
            whole = self.run(folder)
            first = self.run(folder)
            self.play(whole, range(UPDATES))
            self.play(first, range(UPDATES // 2))
            self._forget()
            resumed = self.run(folder, copy.deepcopy(first.steering))
            self.play(resumed, range(UPDATES // 2, UPDATES))
        hint = "remember with run.store(name, value) alone, nothing in the module"
        require("what they had set after a resume", resumed.steering, whole.steering, hint)

    def _forget(self) -> None:
        """Reload the plugin's module, so that its state is lost as in a new process."""
        module = self.module()
        try:
            fresh = importlib.reload(module)
        except Exception as error:
            raise AssertionError(
                f"it can't be imported a second time: {error}\n  hint: keep plugin.py free of "
                "effects"
            ) from error
        # pluggy still refers to the functions of the first import
        for caller in load_plugins().manager.get_hookcallers(module) or []:
            for impl in caller.get_hookimpls():
                if impl.plugin is module:
                    impl.function = getattr(fresh, caller.name)  # type: ignore[misc]  # final to pluggy

    def test_importing_it_prints_nothing(self) -> None:
        """Every command imports it."""
        words = [sys.executable, "-c", f"import {self.module().__name__}"]
        printed = subprocess.run(words, capture_output=True, text=True).stdout
        hint = "every command would show it: drop it, or print in a hook"
        require("what importing it prints", printed[:80], "", hint)

    def test_doctor_rows_have_their_form(self) -> None:
        for row in [row for rows in self.call("rlcore_doctor", config=None) for row in rows]:
            assert isinstance(row, dict) and {*row} == ROWS and row["status"] in STATUSES, (
                f"rlcore_doctor returned {row!r}, expected a dict of {', '.join(sorted(ROWS))} "
                f"with a status of {', '.join(STATUSES)}\n  hint: see rlcore_doctor in "
                "rlcore.contracts.hookspecs"
            )


def outcomes(update: int) -> list[EpisodeOutcome]:
    """Return the outcomes of an update's episodes."""
    return [
        EpisodeOutcome(Episode(row % len(TASKS), update * 4 + row), row % 3 == 0, float(row), 10)
        for row in range(4)
    ]


def films() -> list[LabelledFootage]:
    """Return one filmed episode."""
    frames = [np.zeros((16, 16, 3), np.uint8)] * 3
    footage = Footage(Episode(0, 0), frames, [0, 1, 2], [0.0, 0.5, 1.0], [False, False, True])
    return [LabelledFootage(footage, TASKS[0], "reach the left side")]
