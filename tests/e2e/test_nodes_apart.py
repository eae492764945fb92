"""Nodes that don't share a disk: what policies there read and write is sent.

`pytest -m long -n0 tests/e2e/test_nodes_apart.py`. What travels how is tested in
plugins/ray/tests/test_file_transfer.py.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import rlcore_testing
from sameness import assert_same
from simulated_nodes import may_mount, node_with_a_disk_of_its_own, nodes, one_error, run

from rlcore.cli.main import main
from rlcore.run_folder.checkpoint import load_checkpoint

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


def test_what_is_empty_on_one_node_is_one_error_before_a_worker_starts(tmp_path: Path):
    """A checkpoint whose share is not mounted there, and a plugin's package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert main(["train", *WORDS, "cluster.backend=local", "runner.max_epochs=1"]) == 0
    weights = load_checkpoint(tmp_path / "logs" / "run").path / "actor"
    package = Path(rlcore_testing.__file__).parent
    placed = ["cluster.num_nodes=2", "cluster.component_placement={env: 0, rollout: 2, actor: 3}"]
    lacking = {
        weights: f" files of actor.model.model_path={weights}: ",
        package: " lacks code: rlcore_testing.toy_policy:make can't be loaded: ",
    }
    words = ["train", *WORDS, *placed, f"actor.model.model_path={weights}"]
    for emptied, said in lacking.items():
        with nodes({}) as cluster, node_with_a_disk_of_its_own(cluster, emptied):
            ended = run([*words, "runner.logger.log_path=other"], cluster, tmp_path)
        assert ended.code == 2 and one_error(ended.err), ended.err
        assert "error: node 1 (" in ended.err and said in ended.err
        assert not (tmp_path / "other").exists()
