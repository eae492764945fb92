"""Run as a program by `test_kernels_matrix.py`, as kernels are chosen once a process: whether rows
come out the same everywhere with those that the environment asks for. Prints one JSON object."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from internals import compose

from rlcore.config.schema import RunConfig

BATCHES = (1, 4, 8, 16, 64)
RUN = [
    *("env=toy", "model=toy", "algorithm=ppo", "cluster.backend=local", "cluster.torch_threads=1"),
    *("actor.model.add_value_head=true", "rollout.forward_batch=4", "runner.max_epochs=2"),
    *("env.train.total_num_envs=8", "env.eval.total_num_envs=8", "env.eval.trials_per_task=2"),
    *("actor.micro_batch_size=16", "actor.global_batch_size=32", "runner.save_interval=1"),
]

STAGES = "rollout.pipeline_stage_num=2"


def look() -> dict[str, Any]:
    """`{"moved": {rows: kernels}, "decisions": [...], "digests": [twice]}`."""
    import torch
    from rlcore_testing.toy_policy import make
    from rlcore_testing.toy_settings import ToyEnvConfig, ToyModelConfig, env_spec

    from rlcore.rollout.batch_invariance import ROWS, check_kernels, variant_decisions

    torch.set_num_threads(1)
    torch.manual_seed(0)
    spec = env_spec(ToyEnvConfig(env_type="toy"))
    model = ToyModelConfig(model_type="toy", add_value_head=True, value_type="action_level")
    return {
        "moved": {rows: names for rows in BATCHES if (names := check_kernels(rows)[0])},
        "decisions": [
            f"{name}, {rows} rows"
            for rows in BATCHES[1:]
            for name in variant_decisions(make(model, env_spec=spec), spec, rows)
        ],
        "digests": [check_kernels.__wrapped__(ROWS)[1] for _ in range(2)],
    }


def play() -> list[dict[str, float | None]]:
    """The metrics of a run in one process, and those of one with two stages and processes apart."""
    from internals import assemble, read_metrics, train
    from rlcore_tools.report.sameness import untimed

    def metrics(config: RunConfig) -> Any:
        with tempfile.TemporaryDirectory() as logs:
            logger = replace(config.runner.logger, log_path=logs, experiment_name="run")
            train(assemble(replace(config, runner=replace(config.runner, logger=logger))))
            return untimed(read_metrics(Path(logs) / "run" / "metrics.jsonl"))

    apart = ("cluster.component_placement={env: 0, rollout: 0, actor: 1}", STAGES)
    return [metrics(compose([*RUN, *more])) for more in ((), apart)]


if __name__ == "__main__":
    found = look()
    if "play" in sys.argv[1:]:
        found["runs"] = play()
    print(json.dumps(found))
