"""Nodes that don't share a disk: one error before a worker starts.

`pytest -m long -n0 tests/e2e/test_nodes_apart.py`. The messages are tested in
plugins/ray/tests/test_node_files.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import rlcore_testing
from internals import load_checkpoint
from simulated_nodes import may_mount, node_with_a_disk_of_its_own, nodes, one_error, run

from rlcore.cli.main import main

WORDS = [
    "env=toy", "model=toy", "algorithm=ppo", "algorithm.kl_beta=0.01", "sft.enabled=true",
    "sft.max_steps=5", "collect.episodes_per_task=2", "runner.val_before_train=false",
    "runner.save_interval=1", "env.train.total_num_envs=4", "env.eval.total_num_envs=4",
    "env.eval.trials_per_task=1", "rollout.forward_batch=4", "cluster.torch_threads=1",
    "runner.logger.log_path=logs", "cluster.timeouts.start=900",
    "runner.logger.experiment_name=run",
]  # fmt: skip

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.long,
    pytest.mark.skipif(not may_mount(), reason="only root can give a node a disk of its own"),
]


PLACED = ["cluster.num_nodes=2", "cluster.component_placement={env: 0, rollout: 2, actor: 3}"]


def test_a_run_folder_that_a_node_does_not_share_is_refused(tmp_path: Path):
    """The policies are on the second node, which has another disk at the place of the runs."""
    place = tmp_path / "logs"
    place.mkdir()
    with nodes({}) as cluster, node_with_a_disk_of_its_own(cluster, place):
        ended = run(["train", *WORDS, *PLACED], cluster, tmp_path)
    assert ended.code == 2 and one_error(ended.err), ended.err
    assert "error: node 1 (" in ended.err and str(place) in ended.err
    assert not list(place.iterdir())


def test_what_is_empty_on_one_node_is_one_error_before_a_worker_starts(tmp_path: Path):
    """A checkpoint whose share is not mounted there, and a plugin's package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert main(["train", *WORDS, "cluster.backend=local", "runner.max_epochs=1"]) == 0
    weights = load_checkpoint(tmp_path / "logs" / "run").path / "actor"
    package = Path(rlcore_testing.__file__).parent
    lacking = {
        weights: f"actor.model.model_path={weights}",
        package: "rlcore_testing.toy_policy:make",
    }
    words = ["train", *WORDS, *PLACED, f"actor.model.model_path={weights}"]
    for emptied, text in lacking.items():
        with nodes({}) as cluster, node_with_a_disk_of_its_own(cluster, emptied):
            ended = run([*words, "runner.logger.log_path=other"], cluster, tmp_path)
        assert ended.code == 2 and one_error(ended.err), ended.err
        assert "error: node 1 (" in ended.err and text in ended.err
        assert not (tmp_path / "other").exists()
