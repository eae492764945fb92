"""Accelerators, memory, disk and time: figures by hand, on machines of an inventory file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from internals import to_yaml
from rlcore_testing.toy_settings import GOALS

from rlcore.checks import pace, resources
from rlcore.checks.facts import Facts, gather_facts, plan_run
from rlcore.config.compose import compose
from rlcore.placement import Inventory, Node, make_plan
from rlcore.plugins.registry import load_plugins

GIB = 2**30
PLAN = "rlcore plan env=toy model=toy algorithm=ppo"
ALONE = "cluster.component_placement={env: 0, rollout: 0, actor: 0}"
Made = Callable[..., Facts]


@pytest.fixture
def made(elsewhere: Path) -> Made:
    """`made(node, *overrides)`: one process that acts and learns with 2^30 parameters in fp32.

    As if with adapters, which leaves no way to hold the model that needs less memory."""

    def make(node: Node, *overrides: str) -> Facts:
        words = ["env=toy", "model=toy", "algorithm=ppo", ALONE, "actor.model.is_lora=true"]
        config = compose([*words, *overrides])
        plan = make_plan(config.cluster, Inventory((node,)), offloads=config.offloaded_roles)
        facts = gather_facts(config, load_plugins(), plan)
        assert facts.policy is not None
        large = replace(facts.policy, parameters=GIB, trainable_parameters=GIB, library_bytes=0)
        return replace(facts, policy=large)

    return make


def found(facts: Facts, name: str) -> list[tuple[str, str, str]]:
    """Status, detail and fix of the rows of that name."""
    rows = resources.resources(facts, load_plugins())
    return [(r["status"], r["detail"], r["fix"]) for r in rows if r["name"] == name]


@pytest.mark.parametrize(
    ("memory", "status", "figures"),
    [
        # 4 bytes of weights and 12 of gradients and moments each, 380 + 70 MiB of the program
        (16, "missing", ["16.44", "16.00"]),
        # 16.44 GiB and a few decisions; a tenth of 18 GiB stays free
        (18, "warning", ["16.44", "18.00", "16.20"]),
        (19, "ok", ["16.44", "19.00"]),
    ],
)
def test_main_memory(made: Made, memory: int, status: str, figures: list[str]) -> None:
    (row,) = found(made(Node(cpus=1, memory=memory * GIB)), "main memory")
    assert (row[0], re.findall(r"([\d.]+) GiB", row[1]), row[2]) == (status, figures, PLAN)


@pytest.mark.parametrize(
    ("memory", "status", "figures"),
    [
        # 16 GiB, and half a GiB for the context of the env's process and of the policy's
        (16.5, "missing", [17.0, 16.5]),
        # 4 GiB more while AdamW steps
        (20, "warning", [21.0, 20.0, 18.0]),
        (24, "ok", [21.0, 24.0]),
    ],
)
def test_memory_of_an_accelerator(
    made: Made, memory: float, status: str, figures: list[float]
) -> None:
    node = Node(cpus=8, gpus=1, gpu_memory=int(memory * GIB))
    words = ["actor.micro_batch_size=1", "actor.global_batch_size=1"]
    ((found_status, detail, _),) = found(made(node, *words), "GPU memory")
    assert found_status == status
    shown = [float(figure) for figure in re.findall(r"([\d.]+) GiB", detail)]
    assert shown == pytest.approx(figures, abs=0.015)


@pytest.mark.filterwarnings("ignore::rlcore.config.warning.ConfigWarning")
def test_settings_that_need_less_memory_are_named() -> None:
    """The recipe of the published π0.5, in two stages, on a card of 24 GB."""
    words = ["experiment=libero_10_ppo_openpi_pi05", "actor.model.model_path=null"]
    config = compose([*words, "rollout.pipeline_stage_num=2"])
    node = Node(cpus=16, gpus=1, gpu_memory=int(22.5 * GIB), memory=128 * GIB)
    plan = plan_run(config, Inventory((node,)))
    ((status, detail, fix),) = found(gather_facts(config, load_plugins(), plan), "GPU memory")
    assert status == "warning"
    assert detail.endswith(": not in fp32; in bf16 20.2 of 22.5 GiB")
    assert fix.startswith("actor.model.precision=bf16; other layouts: rlcore plan ")


def test_an_evaluation_makes_no_optimizer_and_no_checkpoints(made: Made) -> None:
    facts = made(Node(cpus=1, memory=16 * GIB), "runner.only_eval=true")
    ((status, detail, _),) = found(facts, "main memory")  # 4 GiB, and 450 MiB of the program
    assert status == "ok" and "4.44 GiB" in detail
    assert not found(facts, "disk") and not found(facts, "time")


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("words", "free", "status", "checkpoints"),
    [
        # 4 bytes of weights and 8 of moments: gradients are not kept
        # one of ten updates after each, the newest of which stays
        ([], 11, "missing", "2 checkpoints of 12.00 GiB"),
        ([], 23, "warning", "2 checkpoints of 12.00 GiB"),
        (["runner.max_epochs=-1"], 24, "ok", "2 checkpoints of 12.00 GiB"),
        (["runner.keep_best=true"], 36, "ok", "3 checkpoints of 12.00 GiB"),
        (["runner.save_interval=-1"], 11, "missing", "a checkpoint of 12.00 GiB"),
        (["runner.save_interval=-1"], 12, "ok", "a checkpoint of 12.00 GiB"),
        (["runner.save_interval=2"], 59, "warning", "5 checkpoints of 12.00 GiB"),
        (["runner.save_interval=2"], 60, "ok", "5 checkpoints of 12.00 GiB"),
        # the older one goes when the newer is there
        (["runner.save_interval=2", "runner.keep_last=1"], 24, "ok", "2 checkpoints of 12.00 GiB"),
        (["sft.enabled=true"], 4, "warning", ""),  # `rlcore sft` keeps no optimizer
        (["sft.enabled=true"], 3, "missing", ""),
    ],
)
def test_disk(
    made: Made,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    free: int,
    status: str,
    checkpoints: str,
) -> None:
    facts = made(Node(cpus=1), "runner.max_epochs=10", *words)
    monkeypatch.setattr(resources.shutil, "disk_usage", lambda _: SimpleNamespace(free=free * GIB))
    ((found_status, detail, fix),) = found(facts, "disk")
    assert found_status == status
    assert checkpoints in detail and f"{free}.00 GiB" in detail
    assert status == "ok" or "runner.logger.log_path=FOLDER" in fix


def test_time_by_the_speed_of_the_last_run_alike(made: Made, elsewhere: Path) -> None:
    facts = made(Node(cpus=1), "runner.max_epochs=40", "runner.logger.log_path=logs")
    ((status, detail, _),) = found(facts, "time")
    assert status == "ok" and detail.startswith("not known") and f"{elsewhere}/logs" in detail
    (elsewhere / "logs" / "running").mkdir(parents=True)
    log = recorded(facts, "by-another-name")
    ((_, detail, _),) = found(facts, "time")  # 40 times 90 s
    assert all(named in detail for named in ("1.0 h", "40 updates", "90.0 s", str(log.parent)))
    log.write_text("{")
    assert "not known" in found(facts, "time")[0][1]
    rows = resources.resources(facts, load_plugins(), updates=False)  # `rlcore sft` makes none
    assert "time" not in [row["name"] for row in rows]


@pytest.mark.parametrize(
    "words",
    [("algorithm=grpo",), ("env.train.tasks=[reach-up]",), ("model=gaussian",)],
    ids=["algorithm", "tasks", "model"],
)
def test_no_time_by_the_speed_of_another_run(made: Made, elsewhere: Path, words) -> None:
    facts = made(Node(cpus=1), "runner.logger.log_path=logs")
    recorded(facts, "run")
    other = compose(["env=toy", "model=toy", "algorithm=ppo", *words])
    spec = replace(facts.envs["train"], tasks=tuple(other.env.train.tasks or GOALS))
    changed = replace(
        facts,
        config=replace(
            facts.config,
            **{name: getattr(other, name) for name in ("algorithm", "recipe", "actor")},
        ),
        envs={**facts.envs, "train": spec},
    )
    assert "90.0 s" in pace.time_row(facts)["detail"]
    assert "not known" in pace.time_row(changed)["detail"]


def recorded(facts: Facts, name: str) -> Path:
    """Write the files of an earlier run of these facts, with updates of 60 and 120 s."""
    log = Path(facts.config.runner.logger.log_path) / name / "metrics.jsonl"
    log.parent.mkdir(parents=True)
    (log.parent / "config.yaml").write_text(to_yaml(facts.config))
    sentences = dict.fromkeys(facts.envs["train"].tasks, "do it")
    (log.parent / "manifest.json").write_text(json.dumps({"sentences": {"train": sentences}}))
    lines = [
        {"eval/success": 1},
        {"time/rollout": 30, "time/update": 20, "time/sync": 10},
        {"time/rollout": 60, "time/update": 40, "time/sync": 20},
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return log


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("cuda", "hip", "sees"),
    [("None", "None", False), ("'12.8'", "None", True), ("None", "'6.3'", True)],
)
def test_a_build_of_torch_for_cpus_on_a_machine_with_gpus(
    made: Made, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cuda: str, hip: str, sees: bool
) -> None:
    built = f"__version__ = '2.9.0+x'\ncuda: Optional[str] = {cuda}\nhip: Optional[str] = {hip}\n"
    (tmp_path / "version.py").write_text(built)
    torch = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(resources, "find_spec", lambda name: torch)
    monkeypatch.setattr(resources, "version", lambda name: "2.9.0+x")
    rows = found(made(Node(cpus=1, gpus=1)), "torch")
    wanted = [("missing", "pip install --force-reinstall torch==2.9.0")]
    assert [(status, fix) for status, _, fix in rows] == ([] if sees else wanted)
    assert not found(made(Node(cpus=1)), "torch")
    described = made(Node(cpus=1, gpus=1), "cluster.inventory=1x80GB")  # not this machine
    assert not found(described, "torch")
