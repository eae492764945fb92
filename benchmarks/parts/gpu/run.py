"""Run two recipes cut short: the policy on the card, simulators on the cores or on the card."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from parts.gpu.row_process import Report

POLL_SECONDS = 0.5
SHORT = (
    "experiment=quickstart_expo", "runner.max_epochs=3", "sft.max_steps=20",
    "runner.val_check_interval=-1", "env.eval.trials_per_task=1",
    "env.eval.video_cfg.save_video=false", "cluster.backend=local",
)  # fmt: skip
QUICK = (
    "env.train.total_num_envs=4", "env.train.rollout_epoch=1", "env.train.max_episode_steps=20",
    "env.eval.max_episode_steps=20", "env.eval.total_num_envs=4", "sft.max_steps=2",
    "collect.max_episode_steps=200",
    "runner.max_epochs=1", "env.train.image_size=64", "algorithm.imitation_steps=1",
    "actor.micro_batch_size=8", "algorithm.batch_size=8", "algorithm.imitation_batch_size=8",
    "env.train.tasks=[handle-press-v3]",
    "env.eval.tasks=[handle-press-v3]",
)  # fmt: skip


def quickstart_expo(report: Report, *, quick: bool) -> None:
    """Report the metrics of each update of `rlcore train quickstart_expo`.

    Raises:
        RuntimeError: the run ended with an error; its last lines are in the message.
    """
    with tempfile.TemporaryDirectory() as place:
        words = [*SHORT, *(QUICK if quick else ()), f"runner.logger.log_path={place}"]
        folder = Path(place) / "quickstart_expo"  # the recipe's experiment_name
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "rlcore.cli.main", "train", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        seen = 0
        while process.poll() is None:
            time.sleep(POLL_SECONDS)
            seen = _new(report, folder, seen, began)
        _new(report, folder, seen, began)
        assert process.stderr is not None
        errors = process.stderr.read()
        if process.returncode:
            raise RuntimeError("\n".join(errors.strip().splitlines()[-20:]))
        report(seconds=time.monotonic() - began, ended=True)


def _new(report: Report, folder: Path, seen: int, began: float) -> int:
    """Report the lines of metrics that are new; return how many there are."""
    file = folder / "metrics.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    for line in lines[seen:]:
        metrics: dict[str, Any] = json.loads(line)
        if "train/actor/lr" in metrics:
            report(seconds=time.monotonic() - began, metrics=metrics)
    return max(seen, len(lines))


def maniskill(report: Report, *, quick: bool, model: str, sim_backend: str = "cpu") -> None:
    """Report rollouts and updates of a ManiSkill recipe on stand-ins, its phases and peaks."""
    from rlcore_sapien.vulkan import environment

    os.environ.update(environment())  # SAPIEN reads them when it is imported
    from parts.gpu.maniskill import Settings, measure

    if quick:
        settings = Settings(model, "tiny", "cpu", num_envs=1, chunks=2, repeats=1, by_phase=True)
    else:
        on_card = sim_backend == "gpu"
        settings = Settings(
            model,
            "published",
            sim_backend,
            num_envs=64 if on_card else 16,
            chunks=4,
            repeats=2,
            by_phase=on_card,
        )
    measure(settings, report)
