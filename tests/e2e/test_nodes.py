"""Runs over several nodes, simulated on one machine: every shape of placement, and what is refused
before a worker starts.

The matrix: `pytest -m long -n0 tests/e2e/test_nodes.py`.
"""

from __future__ import annotations

import multiprocessing
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from internals import assemble, compose, make_group
from ray.cluster_utils import Cluster
from rlcore_ray.cluster import cluster_session
from sameness import assert_same, numbers
from simulated_nodes import MOST_SECONDS, nodes, run, start

from rlcore.cli.main import main
from rlcore.contracts.errors import WorkerError

TOY = [
    "train", "env=toy", "model=toy", "algorithm=ppo", "runner.max_epochs=2",
    "runner.val_before_train=false", "env.train.total_num_envs=4", "env.eval.total_num_envs=4",
    "env.eval.trials_per_task=1", "rollout.forward_batch=4", "cluster.torch_threads=1",
    "runner.logger.log_path=logs", "runner.logger.experiment_name=run",
]  # fmt: skip
METAWORLD = [
    "train", "experiment=quickstart_ppo", "sft.enabled=false", "runner.max_epochs=2",
    "runner.val_before_train=false", "env.train.tasks=[button-press-topdown-v3]",
    "env.eval.tasks=[button-press-topdown-v3]", "env.train.total_num_envs=4",
    "env.train.rollout_epoch=1", "env.train.max_episode_steps=40", "env.eval.total_num_envs=4",
    "env.eval.max_episode_steps=40", "env.eval.trials_per_task=1",
    "env.eval.video_cfg.save_video=false", "actor.global_batch_size=16",
    "actor.micro_batch_size=16", "algorithm.update_epoch=1", "cluster.torch_threads=1",
    "runner.logger.log_path=logs", "cluster.timeouts.start=900",
    "algorithm.critic_warmup_updates=0",
    "cluster.component_placement={env: 0-1, rollout: 2, actor: 3}",
]  # fmt: skip
SEPARATE = "{env: 0, rollout: 1-2, actor: 3}"
ONE_ACTOR = {  # on two nodes of two cores, and on three
    "env apart": (2, "{env: 0-1, rollout: 2, actor: 2}"),
    "actor apart": (2, "{env: 0, rollout: 0-1, actor: 2}"),
    "several env processes": (2, "{env: 0-1, rollout: 2-3, actor: 3}"),
    "a node for each": (3, "{env: 0-1, rollout: 2-3, actor: 4}"),
}
TWO_ACTORS = {
    "shared": (2, "{env: '1,3', rollout: '1,3', actor: '1,3'}"),
    "hybrid": (2, "{env: 0-1, rollout: 2-3, actor: '0,2'}"),
    "separate": (3, "{env: 0-1, rollout: 2-3, actor: 4-5}"),
}


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Cluster]:
    with nodes({}, {"labels": {"pool": "sim"}}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[Cluster]:
    with nodes({}, {}, {}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def one_node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the same run on this machine, in one process."""
    place = tmp_path_factory.mktemp("one")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        assert main([*TOY, "cluster.backend=local"]) == 0
    return place / "logs" / "run"


def trained(
    cluster: Cluster, count: int, placement: str, place: Path, more: Sequence[str] = ()
) -> Path:
    """The folder of a run."""
    words = [*TOY, f"cluster.num_nodes={count}", f"cluster.component_placement={placement}"]
    ended = run([*words, *more], cluster, place)
    assert ended.code == 0, ended.err
    return place / "logs" / "run"


@pytest.mark.long
def test_two_nodes_give_the_bits_of_one(two_nodes: Cluster, one_node: Path, tmp_path: Path):
    """One stage feeds two rollout processes, one of them on another node, as is the actor."""
    assert_same(one_node, trained(two_nodes, 2, SEPARATE, tmp_path))


@pytest.mark.long
@pytest.mark.parametrize("shape", ONE_ACTOR)
def test_with_one_actor_rank_every_shape_gives_the_same_bits(
    shape: str, request: pytest.FixtureRequest, one_node: Path, tmp_path: Path
):
    count, placement = ONE_ACTOR[shape]
    cluster = request.getfixturevalue("two_nodes" if count == 2 else "three_nodes")
    assert_same(one_node, trained(cluster, count, placement, tmp_path))


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "strategy"),
    [
        *((shape, "full_shard") for shape in TWO_ACTORS),
        ("shared", "no_shard"),
        pytest.param("hybrid", "no_shard", marks=pytest.mark.exhaustive),
        pytest.param("separate", "no_shard", marks=pytest.mark.exhaustive),
    ],
)
def test_two_actor_ranks_finish_two_updates(
    shape: str, strategy: str, request: pytest.FixtureRequest, one_node: Path, tmp_path: Path
):
    """They talk through the interface that is given."""
    count, placement = TWO_ACTORS[shape]
    cluster = request.getfixturevalue("two_nodes" if count == 2 else "three_nodes")
    more = [f"actor.fsdp_config.sharding_strategy={strategy}", "cluster.network_interface=lo"]
    found = numbers(trained(cluster, count, placement, tmp_path, more))
    assert len(found) == len(numbers(one_node)) == 3  # two updates and the evaluation
    # the first rollout comes before any update: it is the same whoever learns from it
    first = {name: value for name, value in numbers(one_node)[0].items() if "rollout/" in name}
    assert first.items() <= found[0].items()


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_metaworld_and_a_tiny_pi0_make_two_updates(two_nodes: Cluster, tmp_path: Path):
    """Both env processes are on the first node, the policies on the second."""
    ended = run([*METAWORLD, "cluster.num_nodes=2"], two_nodes, tmp_path)
    assert ended.code == 0, ended.err
    found = numbers(tmp_path / "logs" / "quickstart_ppo")
    assert [line["step"] for line in found if "train/actor/lr" in line] == [1, 2]
    assert all(line["train/actor/optimizer_steps"] for line in found if "train/actor/lr" in line)


@pytest.mark.long
@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["cluster.component_placement={env: 0-1, rollout: 2-3, actor: 4}"],
         ["cluster.component_placement.actor", "'4'", "0-3"]),
        (["cluster.node_groups=[{label: big, node_labels: {pool: gpu}}]"],
         ["cluster.node_groups", "'big'", "pool=gpu", "pool=sim"]),
        (["cluster.component_placement={env: {node_group: b, placement: 0}, rollout: 0, actor: 0}"],
         ["cluster.component_placement.env", "node_group 'b'"]),
        (["cluster.num_nodes=3", "cluster.timeouts.nodes=2"],
         ["cluster.num_nodes is 3", "2 joined", "cluster.timeouts.nodes"]),
        (["cluster.num_nodes=1"], ["cluster.num_nodes is 1", "2 joined"]),
        (["cluster.network_interface=eth9"], ["cluster.network_interface='eth9'", "node 0"]),
    ],
)  # fmt: skip
def test_one_error_before_a_worker_starts(
    overrides: list[str], words: list[str], two_nodes: Cluster, tmp_path: Path
):
    ended = run([*TOY, "cluster.num_nodes=2", *overrides], two_nodes, tmp_path)
    assert ended.code == 2
    assert all(word in ended.err for word in words), ended.err
    assert ended.err.count("error:") == 1 and "Traceback" not in ended.err
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_other_versions_are_refused(tmp_path: Path):
    """The second node imports an rlcore of its own, of another version."""
    other = tmp_path / "other" / "rlcore"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("__version__ = '0.0.7'\n")
    place = tmp_path / "place"
    place.mkdir()
    with nodes({}, {"env_vars": {"PYTHONPATH": str(other.parent)}}) as cluster:
        ended = run([*TOY, "cluster.num_nodes=2"], cluster, place)
    assert ended.code == 2
    assert "rlcore: " in ended.err and "node 1 0.0.7" in ended.err
    assert ended.err.count("error:") == 1 and not list(place.iterdir())


@pytest.mark.long
def test_a_node_that_dies_ends_the_run_with_one_error(tmp_path: Path):
    """In the middle of training; what it had written is resumed on the node that is left."""
    words = [*TOY, "runner.max_epochs=500", "runner.save_interval=1", "cluster.num_nodes=2"]
    with nodes({}, {}) as cluster:
        second = next(node for node in cluster.list_all_nodes() if node is not cluster.head_node)
        placed = "cluster.component_placement={env: 2-3, rollout: 0, actor: 0}"
        process = start([*words, placed], cluster, tmp_path)
        run_folder = tmp_path / "logs" / "run"
        while process.poll() is None and not (run_folder / "checkpoints/step_000001").exists():
            time.sleep(0.2)
        begin = time.monotonic()
        cluster.remove_node(second, allow_graceful=False)
        _, err = process.communicate(timeout=MOST_SECONDS)
    print(f"ended {time.monotonic() - begin:.1f} s after its node")
    assert process.returncode == 1, err
    assert err.count("error:") == 1 and "left the cluster, with env worker" in err
    resumed = main(["resume", str(run_folder), "cluster.backend=local", "cluster.num_nodes=1",
                    "cluster.address=null", "runner.max_epochs=3",
                    "cluster.component_placement={env: 0, rollout: 0, actor: 0}"])  # fmt: skip
    assert resumed == 0


@pytest.mark.long
def test_the_command_shows_the_nodes(two_nodes: Cluster, tmp_path: Path):
    ended = run(["cluster", "cluster.num_nodes=2"], two_nodes, tmp_path)
    assert ended.code == 0, ended.err
    rows = [line.split("│") for line in ended.out.splitlines() if line.startswith("│")]
    assert [(row[1].strip(), row[5].strip(), row[7].strip(), row[8].strip()) for row in rows] == [
        ("0", "2", "0-1", "-"),
        ("1", "2", "2-3", "pool=sim"),
    ]


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["no_shard", "full_shard"])
def test_nodes_with_unlike_weights(two_nodes: Cluster, tmp_path: Path, strategy: str):
    """As if the second node had another training's folder at the path: where ranks divide the
    parameters, a mixture of both would be trained, with `approx_kl` 0."""
    text = r"rollout worker 0 on node 0 .* and actor worker 1 on node 1 .*: 1 of .*: log_std\n"
    spawn = multiprocessing.get_context("spawn")  # this process may be in another cluster
    with ProcessPoolExecutor(1, mp_context=spawn) as process:
        ended = process.submit(refusal_of_unlike, two_nodes.address, strategy, tmp_path)
        assert re.search(text, ended.result())


def refusal_of_unlike(address: str, strategy: str, logs: Path) -> str:
    """What is said as the weights of the second node differ; "" if nothing is."""
    config = compose(
        ["env=toy", "model=toy", "algorithm=ppo", "cluster.num_nodes=2",
         "cluster.component_placement={env: 0, rollout: 0, actor: '0,2'}",
         f"actor.fsdp_config.sharding_strategy={strategy}", "cluster.torch_threads=1",
         f"cluster.address={address}", f"runner.logger.log_path={logs}"],
    )  # fmt: skip
    with cluster_session(config.cluster):
        worker_specs = assemble(config).worker_specs
        first, second = worker_specs.members["actor"]
        actor = replace(first.settings.actor, model=replace(config.actor.model, init_std=0.25))
        unlike = replace(second, settings=replace(second.settings, actor=actor))
        members = {**worker_specs.members, "actor": (first, unlike)}
        try:
            with make_group(replace(worker_specs, members=members)) as group:
                group.start()
        except WorkerError as error:
            return str(error)
    return ""
