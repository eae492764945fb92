"""Check whether the hooks of a plugin meet the contract of :mod:`rlcore.contracts.hookspecs`.

    class TestMyPlugin(HookConformance):
        name = "my_plugin"

Hooks are called in the order of a run, with a fake run of a few updates.
"""

from __future__ import annotations

import copy
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from rlcore.config.bind import plugin_settings
from rlcore.config.schema import RunConfig
from rlcore.contracts.episodes import EpisodeOutcome, Footage, LabelledFootage
from rlcore.contracts.run import Run, Steering
from rlcore.contracts.specs import Episode
from rlcore.plugins.registry import load_plugins
from rlcore_testing.conformance.base import Conformance, Deviation, Finding, check, require

UPDATES = 6
TASKS = ("reach-left", "reach-right")
ROWS = {"name", "status", "detail", "fix"}
STATUSES = ("ok", "warning", "missing", "refused")


class HookConformance(Conformance):
    """Checks of a plugin's hooks. Set `name` to that of its entry point."""

    kind: ClassVar[Any] = "hook"
    test_every_key_of_its_settings_has_a_help_text = None  # type: ignore[assignment]  # it has none
    test_settings_and_facts_load_nothing_heavy = None  # type: ignore[assignment]  # nor facts

    def run_config(self) -> RunConfig:
        """Return the configuration of the run that hooks see."""
        return RunConfig(plugins=plugin_settings(load_plugins().settings))

    def module(self) -> Any:
        """Return the plugin's module."""
        found = load_plugins().manager.get_plugin(self.name)
        require(found is not None, f"there is no plugin {self.name!r} that could be loaded",
                hint="rlcore plugins says why")  # fmt: skip
        return found

    def call(self, hook: str, **arguments: Any) -> Any:
        """Call a hook of this plugin alone, if it has it; return the results."""
        manager = load_plugins().manager
        others = [each for each in manager.get_plugins() if each is not self.module()]
        return manager.subset_hook_caller(hook, others)(**arguments)

    def play(self, run: Run, updates: range) -> list[dict[str, float]]:
        """Call the hooks of some updates; return the metrics as the hooks left them."""
        left = []
        for update in updates:
            metrics = {"env/success_once": 0.25 + 0.01 * (update % 3), "rollout/steps": 64.0}
            self.call("rlcore_after_rollout", run=run, outcomes=outcomes(update), films=films(),
                      metrics=metrics)  # fmt: skip
            object.__setattr__(run, "update", update + 1)
            trained = {"train/actor/approx_kl": 0.02, "train/actor/policy_loss": 0.1}
            self.call("rlcore_after_update", run=run, metrics=trained)
            judged = {"eval/success_once": 0.5, "eval/return": 1.0}
            label = f"step_{update + 1:06d}"
            self.call("rlcore_after_eval", run=run, label=label, films=films(), metrics=judged)
            left += [metrics, trained, judged]
        return left

    def run(self, folder: str, steering: Steering | None = None) -> Run:
        """Return a run before its first update."""
        return Run(self.run_config(), Path(folder), TASKS, steering=steering or Steering(),
                   say=lambda text: None)  # fmt: skip

    def test_a_run_can_be_played_with_them(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            run = self.run(folder)
            for metrics in self.play(run, range(UPDATES)):
                odd = {name: value for name, value in metrics.items()
                       if not isinstance(name, str) or isinstance(value, bool)
                       or not isinstance(value, (int, float, np.floating, np.integer))}  # fmt: skip
                require(not odd, f"a hook added {odd}, expected names and numbers",
                        hint="metrics[name] = float(value)")  # fmt: skip
            self.call("rlcore_after_run", run=run, summary={"success_after": {"rate": 0.5}})

    def test_what_they_decide_does_not_depend_on_a_resume(self) -> None:
        """A resumed run has the values of `run.keep`, but is a new process."""
        with tempfile.TemporaryDirectory() as folder:
            whole = self.run(folder)
            self.play(whole, range(UPDATES))
            first = self.run(folder)
            self.play(first, range(UPDATES // 2))
            self._forget()
            resumed = self.run(folder, copy.deepcopy(first.steering))
            self.play(resumed, range(UPDATES // 2, UPDATES))
        require(
            resumed.steering == whole.steering,
            f"after a resume they had set {resumed.steering}, without one {whole.steering}",
            hint="remember with run.store(name, value) alone, nothing in the module",
        )

    def test_importing_it_prints_nothing(self) -> None:
        """Every command imports it."""
        words = [sys.executable, "-c", f"import {self.module().__name__}"]
        said = subprocess.run(words, capture_output=True, text=True).stdout
        require(not said, f"importing it prints {said[:80]!r}, expected nothing",
                hint="every command would show it: drop it, or print in a hook")  # fmt: skip

    def test_doctor_rows_have_their_form(self) -> None:
        for row in [row for rows in self.call("rlcore_doctor", config=None) for row in rows]:
            require(
                isinstance(row, dict) and set(row) == ROWS and row["status"] in STATUSES,
                f"rlcore_doctor returned {row!r}, expected a dict of {', '.join(sorted(ROWS))} "
                f"with a status of {', '.join(STATUSES)}",
                hint="see rlcore_doctor in rlcore.contracts.hookspecs",
            )

    def _forget(self) -> None:
        """Reload the plugin's module, so that its state is lost as in a new process."""
        import importlib

        module = self.module()
        try:
            fresh = importlib.reload(module)
        except Exception as error:
            raise Deviation(f"it can't be imported a second time: {error}",
                            hint="keep plugin.py free of effects") from error  # fmt: skip
        # pluggy still refers to the functions of the first import
        for caller in load_plugins().manager.get_hookcallers(module) or []:
            for impl in caller.get_hookimpls():
                if impl.plugin is module:
                    impl.function = getattr(fresh, caller.name)  # type: ignore[misc]  # final to pluggy


def outcomes(update: int) -> list[EpisodeOutcome]:
    """Return the outcomes of an update's episodes."""
    return [
        EpisodeOutcome(Episode(row % len(TASKS), update * 4 + row), row % 3 == 0, float(row), 10)
        for row in range(4)
    ]


def films() -> list[LabelledFootage]:
    """Return one filmed episode."""
    frames = [np.zeros((16, 16, 3), np.uint8) for _ in range(3)]
    footage = Footage(Episode(0, 0), frames, [0, 1, 2], [0.0, 0.5, 1.0], [False, False, True])
    return [LabelledFootage(footage, TASKS[0], "reach the left side")]


def check_hook(name: str, **settings: Any) -> list[Finding]:
    """Return the contract violations of the hooks of plugin `name`. Hooks have no settings."""
    return check(HookConformance, name, settings)
