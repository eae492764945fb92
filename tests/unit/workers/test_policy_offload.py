"""Policies that leave an accelerator to others while these work, on the toy. The host stands for
the accelerator: what leaves it is really freed, and waits in other memory of the same machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from internals import Assembly, assemble, compose, read_metrics, train
from rlcore_testing.toy_env import ToyEnv

from rlcore.config.schema import CollectConfig
from rlcore.contracts.specs import Episode
from rlcore.learner.update import Learner
from rlcore.rollout import converse
from rlcore.workers.local_group import LocalGroup
from rlcore.workers.policy_worker import PolicyWorker

WORDS = [
    *("env=toy", "model=toy", "algorithm=ppo", "cluster.backend=local", "runner.max_epochs=2"),
    *("runner.save_interval=1", "runner.val_check_interval=1", "env.eval.trials_per_task=2"),
    *("algorithm.kl_beta=0.1", "algorithm.update_epoch=2"),
    "cluster.component_placement={env: 0, rollout: 0, actor: 0}",
    "runner.logger.experiment_name=run",
]


def assembled(
    logs: Path, *, apart: bool, offload: bool, words: list[str] | None = None
) -> Assembly:
    """A run of two updates: one process acts and learns, or two on one place do."""
    made = assemble(compose([*WORDS, f"runner.logger.log_path={logs}"]))
    (member,) = made.worker_specs.members["rollout+actor"]
    member = replace(member, settings=replace(member.settings, offload=offload))
    members = {"env": made.worker_specs.members["env"]}
    for role in ("rollout", "actor") if apart else ("rollout+actor",):
        members[role] = (member,)
    return replace(made, worker_specs=replace(made.worker_specs, members=members))


def results(logs: Path) -> dict[str, Any]:
    """Return the metrics of the updates, but for times, and the bytes of the last checkpoint."""
    metrics = [
        {name: value for name, value in line.items() if "time" not in name and "second" not in name}
        for line in read_metrics(logs / "run/metrics.jsonl")
    ]
    last = logs / "run/checkpoints/step_000002"
    files = {file.name: file.read_bytes() for file in last.rglob("*.safetensors")}
    assert len(metrics) >= 2 and len(files) >= 2
    return {"metrics": metrics, "files": files}


def on_device(worker: PolicyWorker) -> dict[str, int]:
    """Bytes of weights, and of all else that learning needs."""
    policy = worker._policy
    learner = getattr(worker, "_learner", None)
    assert isinstance(policy, torch.nn.Module)
    held = {"weights": policy.parameters(), "learner": learner.tensors() if learner else ()}
    return {
        name: sum(tensor.untyped_storage().nbytes() for tensor in tensors)
        for name, tensors in held.items()
    }


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[dict[str, dict[str, int]]]]:
    """Bytes of each worker on the device when a policy begins to act, and after it learned."""
    workers: list[PolicyWorker] = []
    seen: dict[str, list[dict[str, dict[str, int]]]] = {"act": [], "learn": []}
    make = PolicyWorker.__init__
    act = converse.converse
    learn = Learner.update

    def made(self: PolicyWorker, settings: Any) -> None:
        make(self, settings)
        workers.append(self)

    def note(what: str) -> None:
        seen[what].append({type(worker).__name__: on_device(worker) for worker in workers})

    def acting(*arguments: Any) -> Any:
        note("act")
        return (yield from act(*arguments))

    def learning(self: Learner, *arguments: Any) -> Any:
        try:
            return learn(self, *arguments)
        finally:
            note("learn")

    monkeypatch.setattr(PolicyWorker, "__init__", made)
    monkeypatch.setattr(converse, "converse", acting)
    monkeypatch.setattr(Learner, "update", learning)
    return seen


@pytest.mark.long
@pytest.mark.parametrize("apart", [True, False])
def test_offloading_changes_no_bit_of_a_run(tmp_path: Path, apart: bool) -> None:
    for offload in (False, True):
        train(assembled(tmp_path / str(offload), apart=apart, offload=offload))
    assert results(tmp_path / "True") == results(tmp_path / "False")


def test_two_processes_are_never_on_the_device_together(tmp_path: Path, moments) -> None:
    train(assembled(tmp_path, apart=True, offload=True))
    assert len(moments["act"]) >= 4 and len(moments["learn"]) == 2  # and evaluations
    for there in moments["act"]:
        assert there["RolloutWorker"]["weights"] > 0
        assert there["ActorWorker"] == {"weights": 0, "learner": 0}
    for there in moments["learn"]:
        assert there["ActorWorker"]["weights"] > 0 and there["ActorWorker"]["learner"] > 0
        assert there["RolloutWorker"]["weights"] == 0


def test_a_fused_process_offloads_the_learner_alone(tmp_path: Path, moments) -> None:
    train(assembled(tmp_path, apart=False, offload=True))
    for there in moments["act"]:
        assert there["FusedWorker"]["weights"] > 0 and there["FusedWorker"]["learner"] == 0
    assert all(there["FusedWorker"]["learner"] > 0 for there in moments["learn"])


def test_without_offloading_everything_stays(tmp_path: Path, moments) -> None:
    train(assembled(tmp_path, apart=True, offload=False))
    last = moments["act"][-1]
    assert last["ActorWorker"]["weights"] > 0 and last["ActorWorker"]["learner"] > 0
    assert moments["learn"][-1]["RolloutWorker"]["weights"] > 0


def test_the_actor_is_offloaded_while_experts_play(tmp_path: Path, monkeypatch) -> None:
    """Their simulators may be on the same accelerator."""
    held: list[int] = []
    demonstrate = ToyEnv.demonstrate

    def noted(self: ToyEnv, *arguments: Any, **more: Any) -> Any:
        held.append(on_device(group._workers["actor"])["weights"])
        return demonstrate(self, *arguments, **more)

    monkeypatch.setattr(ToyEnv, "demonstrate", noted)
    collect = CollectConfig(action_noise=0.0, speed=1.0, stride=1)
    with LocalGroup(assembled(tmp_path, apart=True, offload=True).worker_specs) as group:
        group.start()
        assert on_device(group._workers["actor"])["weights"] > 0
        assert len(group.demonstrate([Episode(0, 0)], collect, 0)) == 1
    assert held and not any(held)
