"""One rank of test_ranks: `python rank_main.py RANK SIZE URL FOLDER`.

Reads its columns from FOLDER/RANK.pt, where there are any, trains the bench of conftest.py, writes
metrics and weights to FOLDER/RANK.json, and what the ranks say where only the log-probs of the
first one's decisions differ from those of acting. A process of its own: forking one that runs
tensor threads is unsafe.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import torch

from rlcore.config.schema import ActorConfig, OptimConfig
from rlcore.contracts.errors import PolicyError
from rlcore.contracts.trajectory import Trajectory
from rlcore.learner import collectives
from rlcore.learner.update import Learner

SETTINGS = {"global_batch_size": 16, "micro_batch_size": 4}
OPTIM = {"lr": 1e-2, "value_lr": 1e-2, "adam_eps": 1e-4}
EPOCHS = 2


def main(rank: int, size: int, url: str, folder: Path) -> None:
    """Train as rank `rank` of `size`."""
    source = importlib.util.spec_from_file_location("bench", Path(__file__).parent / "conftest.py")
    assert source is not None and source.loader is not None
    parts = importlib.util.module_from_spec(source)
    sys.modules["bench"] = parts
    source.loader.exec_module(parts)
    torch.set_num_threads(1)
    policy = parts.LinearPolicy()
    config = parts.ToyConfig(name="toy", update_epoch=EPOCHS)
    actor = ActorConfig(optim=OptimConfig(**OPTIM), **SETTINGS)
    learner = Learner(policy, parts.ToyActorCritic(config), actor, config, seed=0)
    collectives.join_process_group(
        torch.device("cpu"), url=url, rank=rank, world_size=size, timeout=300.0
    )
    mine = folder / f"{rank}.pt"
    gathered = Trajectory(**torch.load(mine)) if mine.is_file() else None
    metrics = learner.update(gathered, 0)
    weights = [parameter.tolist() for parameter in policy.parameters()]
    refused = disagreement(parts, actor, gathered, rank)
    found = {"metrics": metrics, "weights": weights, "refused": refused}
    (folder / f"{rank}.json").write_text(json.dumps(found))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def disagreement(parts: Any, actor: ActorConfig, mine: Trajectory | None, rank: int) -> str:
    """The error of an update whose decisions agree on all ranks but the first."""
    policy = parts.LinearPolicy()
    if rank and mine is not None:
        with torch.no_grad():
            now = policy.evaluate(mine.inputs, mine.replay).logprobs
        made = mine.sample_index >= 0
        mine.logprobs[made] = now[mine.sample_index[made]]
    config = parts.ToyConfig(name="toy", exact_logprobs=True)
    learner = Learner(policy, parts.ToyActorCritic(config), actor, config, seed=0)
    try:
        learner.update(mine, 0)
    except PolicyError as error:
        return error.message
    return ""


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
