"""Folders of sweeps, with the files that runs write."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from internals import compose, to_yaml
from rlcore_testing.toy_settings import ToyEnvConfig, env_spec

from rlcore.contracts.run import Totals
from rlcore.files.atomic import write_text
from rlcore.runs.folder import RunFolder
from rlcore.runs.manifest import build_manifest, code, write_manifest
from rlcore.runs.summary import build_summary, write_summary
from rlcore.runs.tables import EpisodeResult, write_results

SEED, GAMMA, LR = 4242, 0.4242, 0.0424
TASKS = ("pull", "push")


def make_sweep(
    sweep: Path,
    settings: Sequence[Mapping[str, Any]],
    rates: Sequence[float],
    *,
    seeds: int = 2,
    trials: int = 20,
    updates: int = 30,
) -> list[RunFolder]:
    """The runs of a sweep over `algorithm.gamma` and `actor.optim.lr`, and its notes.

    Args:
        sweep: its folder.
        settings: values of these keys.
        rates: chance of success after training, of each setting.
        seeds: runs of each.
        trials: starts of each of two tasks.
        updates: lines of the log.
    """
    words = (f"runner.seed={SEED}", f"algorithm.gamma={GAMMA}", f"actor.optim.lr={LR}")
    text = to_yaml(compose(["env=toy", "model=toy", "algorithm=ppo", *words]))
    manifest = build_manifest(
        seeds={"root": 0},
        device="cpu",
        protocol=None,
        specs={"eval": env_spec(ToyEnvConfig())},
        code=code(),
        evaluated_on="held-out starts",
    )
    found, draw = [], random.Random(0)
    easy = {(task, trial): draw.uniform(-0.2, 0.2) for task in TASKS for trial in range(trials)}
    for setting, rate in zip(settings, rates, strict=True):
        for seed in range(seeds):
            number = len(found)
            folder = RunFolder.create(sweep, f"{number:03d}-seed-{seed}")
            own = text.replace(f"seed: {SEED}", f"seed: {seed}")
            own = own.replace(str(GAMMA), str(setting["algorithm.gamma"]))
            folder.write_config(own.replace(str(LR), str(setting["actor.optim.lr"])))
            write_manifest(folder.manifest, {**manifest, "seeds": {"root": seed}})
            before, after = (
                [
                    EpisodeResult(task, trial, 0, draw.random() < chance + luck, 1.0, 8, "greedy")
                    for (task, trial), luck in easy.items()
                ]
                for chance in (0.1, rate + 0.04 * draw.gauss(0, 1))
            )
            for label, episodes in (("before", before), ("after", after)):
                write_results(folder.evaluations / f"{label}.parquet", episodes)
            lines = [
                {
                    "step": n,
                    "time": 1000.0 + 20 * n,
                    "env/episodes": 64.0,
                    "env/success_once": min(
                        1, max(0, 0.1 + (rate - 0.1) * n / updates + 0.03 * draw.gauss(0, 1))
                    ),
                }
                for n in range(1, updates + 1)
            ]
            write_text(folder.metrics, "".join(f"{json.dumps(line)}\n" for line in lines))
            summary = build_summary(
                {"before": before, "after": after},
                seed=seed,
                versions=manifest["versions"],
                seconds={"rollout": 400.0, "update": 200.0},
                totals=Totals(env_steps=1, episodes=64),
            )
            write_summary(folder.summary, summary)
            given = [f"{key}={value}" for key, value in setting.items()] + [f"runner.seed={seed}"]
            note = {"folder": str(folder.path), "state": "done", "error": "", "words": given}
            write_text(sweep / ".jobs" / f"{number}.json", json.dumps(note))
            found.append(folder)
    write_text(sweep / "sweep.txt", "sweep\n")
    return found
