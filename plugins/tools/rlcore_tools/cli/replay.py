"""`rlcore replay RUN --task NAME --trial NUMBER [overrides]`: repeat one episode, for inspection.

`--failures N` in place of the trial films the first N failures of the run's evaluation, the worst
task first.

Uses the run's own configuration with one env in this process (`cluster.backend=local`), so that
`pdb` works in the policy and in the simulator. A simulator under another interpreter has a process
of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlcore.api import (
    NEEDED_TO_ACT,
    Checkpoint,
    Draft,
    Phase,
    Played,
    SavedRun,
    open_run,
    start,
)
from rlcore.cli.request import TRUST, Form, Request
from rlcore.cli.verbs import Verb, run_verb
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import ConfigError, PlacementError, PluginError
from rlcore_tools.failures import acting

SIDES = ("train", "eval")
USAGE = "rlcore replay RUN --task NAME --trial NUMBER, or RUN --failures N"
ONE_PROCESS = (
    "cluster.backend=local",
    "cluster.num_nodes=1",
    "cluster.address=null",
    "cluster.node_groups=[]",
    "cluster.component_placement={env: all:0, rollout: all:0, actor: all:0}",
    "rollout.pipeline_stage_num=1",
    *(f"env.{side}.total_num_envs=1" for side in SIDES),
)
FORM = Form(
    subject="RUN",
    takes_folder=True,
    flags={
        **TRUST,
        "--task": {"metavar": "NAME", "help": "the task, by name or by its number"},
        "--trial": {"type": int, "metavar": "NUMBER", "help": "the start"},
        "--failures": {
            "type": int,
            "metavar": "N",
            "help": "film the first N failures of its evaluation, the worst task first; with "
            "--task of that task",
        },
        "--replica": {
            "type": int,
            "default": 0,
            "metavar": "NUMBER",
            "help": "which episode of a group with this start; default 0",
        },
        "--checkpoint": {
            "metavar": "NAME",
            "help": "step_000010, best or latest; default: the one RUN names, or the latest",
        },
        "--phase": {
            "choices": ("eval", "train"),
            "default": "eval",
            "help": "eval: as evaluations play it; train: on env.train and with exploration "
            "noise, as in the first rollout after the checkpoint",
        },
        "--size": {
            "type": int,
            "metavar": "PIXELS",
            "help": "film in frames of so many pixels, drawn again from the start and the "
            "actions; for envs with image_size. Default: as the policy saw it",
        },
        "--out": {
            "type": Path,
            "metavar": "FOLDER",
            "help": "folder for the files, replacing those in it; default: RUN/replay/TASK_TRIAL",
        },
    },
    sweeps=False,
)
REPLAY = Verb(
    "replay",
    "rlcore_tools.replay:run",
    require=NEEDED_TO_ACT,
    form=FORM,
    plays_train=lambda request: request.options["phase"] == "train",
)


def main(arguments: Sequence[str]) -> int:
    """Replay; see :func:`rlcore.cli.verbs.run_verb`."""
    asked = Asked()
    return run_verb(replace(REPLAY, call=asked.play), arguments, asked.configure)


class Asked:
    """Request to replay an episode.

    Attributes:
        run: the run.
        options: which episodes to replay, and options of the replay; arguments of
            :func:`rlcore_tools.replay.run`.
    """

    run: SavedRun
    options: dict[str, Any]

    def configure(self, request: Request, overrides: Sequence[str]) -> RunConfig:
        """Return the configuration of the named run with its checkpoint, one env and one process.

        Raises:
            UserError: no run is named, or the checkpoint is missing or damaged.
        """
        if request.recipe is None:
            raise ConfigError("an episode of which run?", hint=USAGE)
        open_run(request.recipe)  # says what is wrong with its name
        self.run, self.options = open_run(Path(request.recipe).resolve()), dict(request.options)
        trust, phase = self.options.pop("trust"), self.options["phase"]
        wanted = self.options["failures"]
        if wanted is not None and (wanted < 1 or phase != "eval" or self.options["trial"]):
            raise ConfigError(
                "--failures takes a number from 1 on, and neither --trial nor --phase train, got "
                f"{wanted}",
                hint=USAGE,
            )
        checkpoint = acting(self.run, self.options.pop("checkpoint"))
        size, given = self.options.pop("size"), overrides[1:]
        if size is not None:
            if size < 1:
                raise ConfigError(f"--size takes pixels from 1 on, got {size}", hint=USAGE)
            larger = (*given, f"env.{phase}.image_size={size}")
            self.options["larger"] = config_to_replay(
                self.run, checkpoint, *larger, phase=phase, trust=trust
            )
        return config_to_replay(self.run, checkpoint, *given, phase=phase, trust=trust)

    def play(self, draft: Draft) -> None:
        """Replay the episodes."""
        trains = self.options["phase"] == "train"
        start(
            REPLAY.loop, draft, plays_train=trains, loop_arguments={"run": self.run, **self.options}
        )


def config_to_replay(
    run: SavedRun, checkpoint: Checkpoint, *given: str, phase: Phase, trust: bool
) -> RunConfig:
    """Return a run's configuration with a checkpoint as model and one env in this process.

    Args:
        given: further overrides, which take precedence.
        phase: whether episodes are played as in evaluation or as in training.
        trust: see :meth:`rlcore.api.SavedRun.config_to_evaluate`.
    """
    changes = [*ONE_PROCESS, *_simulating(run.config(*given, trust=True))]
    changes += _computed_alike(run, phase)
    return run.config_to_evaluate(checkpoint, *changes, *given, trust=trust)


def replay(
    run: SavedRun,
    task: str,
    trial: int,
    *overrides: str,
    replica: int,
    checkpoint: str | None,
    phase: Phase,
    trust: bool,
) -> Played:
    """Replay one episode of a run; see :meth:`rlcore.api.SavedRun.replay`."""
    kept = acting(run, checkpoint)
    config = config_to_replay(run, kept, *overrides, phase=phase, trust=trust)
    loop, trains = "rlcore_tools.replay:play", phase == "train"
    asked = {"run": run, "task": task, "trial": trial, "replica": replica, "phase": phase}
    played: Played = start(loop, Draft(config), plays_train=trains, loop_arguments=asked)
    return played


def _simulating(config: RunConfig) -> Iterator[str]:
    """Yield overrides by which simulators run in this process.

    A simulator that needs another interpreter gets one process.
    """
    for side in SIDES:
        other = getattr(config.env, side).interpreter() is not None
        yield f"env.{side}.num_processes={1 if other else 0}"


def _computed_alike(run: SavedRun, side: str) -> list[str]:
    """Return overrides by which actions are rounded as in the run.

    The forward batch gets as many rows as in a stage of the run, of which the replay uses one, and
    torch as many threads. Otherwise actions would differ from those of the evaluated episode in the
    last bits, and contacts would amplify the difference.

    The list is empty if the run's placement is not possible on this machine, because the sizes are
    unknown then.
    """
    from rlcore.placement import Inventory, make_plan

    config = run.config(trust=True)  # only looked at
    try:
        plan = make_plan(config.cluster, Inventory.local())
    except (PlacementError, PluginError):
        return []
    stages = plan.world_size("env") * config.rollout.pipeline_stage_num
    env = config.env.train if side == "train" else config.env.eval
    rows = config.rollout.forward_batch or max(1, env.total_num_envs // stages)
    threads = config.cluster.torch_threads or plan.cores(plan.allocations("rollout")[0])
    return [f"rollout.forward_batch={rows}", f"cluster.torch_threads={threads}"]
