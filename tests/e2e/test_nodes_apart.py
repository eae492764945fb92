"""Nodes that don't share a disk: what policies there read and write is sent.

`pytest -m long -n0 tests/e2e/test_nodes_apart.py`. What travels how is tested in
tests/unit/workers/test_depot.py.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from sameness import assert_same
from simulated_nodes import may_mount, node_with_a_disk_of_its_own, nodes, run

from rlcore.cli.main import main
from rlcore.track.checkpoint import load_checkpoint

WORDS = [
    "env=toy", "model=toy", "algorithm=ppo", "algorithm.kl_beta=0.01", "sft.enabled=true",
    "sft.max_steps=5", "collect.episodes_per_task=2", "runner.val_before_train=false",
    "runner.save_interval=1", "env.train.total_num_envs=4", "env.eval.total_num_envs=4",
    "env.eval.trials_per_task=1", "rollout.forward_batch=4", "cluster.torch_threads=1",
    "runner.logger.log_path=logs", "cluster.timeouts.start=900",
]  # fmt: skip

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.long,
    pytest.mark.skipif(not may_mount(), reason="only root can give a node a disk of its own"),
]


def seen_from(process: int, place: Path) -> list[str]:
    """Names in a folder, as a process sees it."""
    words = ["nsenter", "--mount", f"--target={process}", "ls", "-A", str(place)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize(
    ("placement", "strategy"),
    [
        ("{env: 0, rollout: 1, actor: 2}", "no_shard"),
        ("{env: 0, rollout: 2-3, actor: 2-3}", "full_shard"),
    ],
)
def test_a_run_over_two_disks(placement: str, strategy: str, tmp_path: Path):
    """Demonstrations, the supervised start, checkpoints and the resume all cross. With one actor
    rank the run has the bits of one process."""
    place = tmp_path / "logs"
    place.mkdir()
    words = [*WORDS, f"actor.fsdp_config.sharding_strategy={strategy}", "cluster.num_nodes=2",
             f"cluster.component_placement={placement}"]  # fmt: skip
    with nodes({}) as cluster, node_with_a_disk_of_its_own(cluster, place) as process:
        ended = run(["train", *words, "runner.max_epochs=2"], cluster, tmp_path)
        assert ended.code == 0, ended.err
        assert "not seen from node 1 (" in ended.out
        ended = run(["resume", "logs/run", "runner.max_epochs=3"], cluster, tmp_path)
        assert ended.code == 0, ended.err
        assert seen_from(process, place) == []
    files = {file.name for file in load_checkpoint(place / "run").path.glob("learner*")}
    if strategy == "no_shard":
        assert files == {"learner.json", "learner.safetensors"}
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(tmp_path)
            whole = ["runner.logger.experiment_name=whole", "cluster.backend=local"]
            assert main(["train", *WORDS, *whole, "runner.max_epochs=3"]) == 0
        assert_same(place / "whole", place / "run")
    else:
        assert files == {"learner.json"} | {
            f"learner-0000{part}-of-00002.safetensors" for part in (1, 2)
        }
