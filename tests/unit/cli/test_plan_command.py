"""`rlcore plan`: the layouts, how full they are, and the keys that it proposes."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

import pytest

from rlcore.checks.plan_command import plan_command
from rlcore.cli.main import main
from rlcore.config.catalog import Catalog
from rlcore.config.compose import compose
from rlcore.config.schema import ClusterConfig
from rlcore.placement import Inventory, Node, make_plan, memory
from rlcore.placement.memory import MemoryNeed
from rlcore.placement.propose import Fill, fill, layouts
from rlcore.plugins.registry import load_plugins

GIB = 2**30
TOY = ["plan", "env=toy", "model=toy", "algorithm=ppo"]


def test_the_layouts_of_two_machines_of_eight():
    found = layouts(Inventory.uniform(2, Node(cpus=8, gpus=8)))
    assert found == {
        "shared": {"env": "all", "rollout": "all", "actor": "all"},
        "hybrid": {"env": "0-7", "rollout": "8-15", "actor": "all"},
        "separate": {"env": "0-3", "rollout": "4-7", "actor": "8-15"},
    }
    assert list(layouts(Inventory.uniform(1, Node(cpus=8, gpus=1)))) == ["shared"]
    assert layouts(Inventory.uniform(1, Node(cpus=8, gpus=2)))["hybrid"]["rollout"] == "1"


def test_the_fullest_counts():
    mapping = {"env": 0, "rollout": "1-2", "actor": "2"}
    rollout = MemoryNeed(30 * GIB, host=7 * GIB, acts=True)
    actor = MemoryNeed(20 * GIB, 30 * GIB, host=8 * GIB, learns=True)
    memory = {"env": MemoryNeed(), "rollout": rollout, "actor": actor}
    plan = make_plan(
        ClusterConfig(component_placement=mapping),
        Inventory((Node(cpus=4, gpus=3, gpu_memory=100 * GIB, memory=24 * GIB),)),
    )
    # a rollout and an actor with a context of 0.5 each; in main memory three programs
    gpu, node = Fill(81 * GIB, 100 * GIB), Fill(22 * GIB, 24 * GIB, "node")
    assert fill(plan, memory) == (gpu, node) and gpu.fits and not node.fits
    # 50 where the actor learns, 30 where the rollout acts, which wait in main memory
    left = replace(plan, offloads=("rollout", "actor"))
    assert fill(left, memory) == (Fill(51 * GIB, 100 * GIB), Fill(102 * GIB, 24 * GIB, "node"))
    cores = make_plan(
        ClusterConfig(component_placement=mapping), Inventory((Node(cpus=3, memory=100 * GIB),))
    )
    # two rollout processes of 30 + 7, an actor of 50 + 8
    assert fill(cores, memory) == (Fill(132 * GIB, 100 * GIB, "node"),)
    unknown = Fill(132 * GIB, 0, "node")
    assert unknown.fits and unknown.share == 1


def test_a_layout_that_fits_is_printed_as_keys(capsys):
    assert main([*TOY, "cluster.inventory=8x80GB"]) == 0
    assert capsys.readouterr().out.splitlines()[:7] == [
        "8x80GB:",
        "  shared fits:",
        "    cluster.component_placement={env: all, rollout: all, actor: all}",
        "    cluster.num_nodes=1",
        "    rollout.pipeline_stage_num=1",  # 8 envs over 8 env processes: one stage
        "    actor.fsdp_config.sharding_strategy=no_shard",
        "    actor.micro_batch_size=128",  # 1024 chunks over 8 ranks
    ]


@pytest.mark.long
def test_the_printed_command_shows_the_layout_that_fits(capsys):
    """On each kind of machine: 8 envs can be dealt to the 8 env processes of the hybrid layout."""
    assert main(TOY) == 0
    printed = capsys.readouterr().out
    commands = [shlex.split(line) for line in re.findall(r"look at it: (.*)", printed)]
    held = re.findall(r"^  the fullest GPU holds (\S+ \S+) of", printed, re.M)
    assert len(commands) == len(held) == 4
    for (program, *words), most in zip(commands, held, strict=True):
        assert program == "rlcore" and main(words) == 0
        assert f"the fullest GPU holds {most} of" in capsys.readouterr().out


def test_the_memory_that_binds_is_shown(capsys):
    assert main([*TOY, "cluster.inventory=1x1.1GB"]) == 1
    # the contexts of two processes and 1 MiB; nine tenths of 1.1 GiB are 1013.76 MiB
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "does not fit" in line]
    assert re.findall(r"[\d.]+ [MG]iB", line) == ["1.00 GiB", "1.10 GiB", "1013.76 MiB"]


def test_main_memory_binds_too(capsys, tmp_path):
    """Weights of two actors and moments wait there, or Ray, Python and torch are too much."""
    machine = "nodes: [{cpus: 8, gpus: 2, gpu_memory: 80GB, memory: 700MB}]"
    (tmp_path / "small.yaml").write_text(machine)
    assert main([*TOY, f"cluster.inventory={tmp_path / 'small.yaml'}"]) == 1
    # two programs of 450 MiB, and little more
    assert re.search(
        r"node would hold 90\d\.\d+ MiB of 700.00 MiB.* 630.00", capsys.readouterr().out
    )


def test_offload_is_proposed_where_it_makes_the_difference(capsys, monkeypatch):
    """Two actor processes divide 1.03 MiB and gather 0.21, a rollout process beside each holds
    0.21: 0.94 MiB in all, and 0.72 where the rollout leaves to the actor, and the reverse. Contexts
    are a thousand times that, and left out."""
    for name in ("CONTEXT", "NCCL", "FREE"):
        monkeypatch.setattr(memory, name, 0)
    divided = [*TOY, "actor.fsdp_config.sharding_strategy=shard_grad_op"]
    offload = ["    actor.enable_offload=true", "    rollout.enable_offload=true"]
    assert main([*divided, "cluster.inventory=2x0.8MB"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  shared, shard_grad_op, with offload, fits:" in lines
    assert sorted(line for line in lines if line in offload) == offload  # keys of the layout
    assert main([*divided, "cluster.inventory=2x1MB"]) == 0
    assert "offload" not in capsys.readouterr().out
    assert main([*divided, *(line.strip() for line in offload), "cluster.inventory=2x0.8MB"]) == 0
    assert "  shared, shard_grad_op, fits:" in capsys.readouterr().out.splitlines()


def test_machines_that_many_have(capsys, snapshot):
    assert main(TOY) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == snapshot  # with what is assumed
    machines = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert machines == ["1x24GB:", "1x80GB:", "8x80GB:", "2x8x80GB:"]
    # main memory is shown for each machine, and assumed once
    assert sum("GiB of main memory" in line for line in lines) == 4 + 1
    # 8 envs can't be dealt to 16 env processes
    (refused,) = [line for line in lines if "is refused" in line]
    assert refused.startswith("  shared") and "x 1 = 16, got 8" in refused


@pytest.mark.filterwarnings("ignore::rlcore.config.warning.ConfigWarning")
def test_where_nothing_fits_adapters_are_proposed(capsys):
    """All 7.5 B parameters with gradients, moments and master copies take 126 GiB, and 28 more
    while AdamW steps, and two contexts 1, of what one accelerator of 80 GB has."""
    words = ["metaworld_50_grpo_openvlaoft", "env.train.sentences=own"]
    assert main(["plan", *words, "cluster.inventory=1x80GB"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("  shared does not fit: ") and " 154.71" in lines[1]
    # 7.5 B parameters in bf16 are 14 GiB, and adapters need no moments of them
    assert lines[2].startswith("  not in bf16; in bf16 with adapters ")
    assert lines[3:5] == ["  shared fits:", "    actor.model.is_lora=true"]
    keys = [line.strip() for line in lines if line.startswith("    ")]
    assert "actor.fsdp_config.sharding_strategy=no_shard" in keys
    assert main(["train", *words, "--dry-run", "cluster.inventory=1x80GB", *keys]) == 0
    assert "TOO MUCH" not in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::rlcore.config.warning.ConfigWarning")
def test_bf16_is_proposed_before_adapters(capsys):
    """3.36 B parameters take 12.5 GiB in fp32, and 6.25 in bf16; 0.43 B of them are trained, which
    takes 12 bytes each in fp32, 4.84 GiB, and 16 in bf16, 6.45. Contexts take 1 GiB, and the rest
    is acting, whose activations halve."""
    words = ["libero_10_ppo_openpi_pi05", "actor.model.model_path=null"]
    assert main(["plan", *words, "cluster.inventory=1x24GB"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("  shared does not fit: ")
    assert lines[2] == "  not in fp32; in bf16 20.2 of 22.5 GiB:"
    assert lines[3:5] == ["  shared fits:", "    actor.model.precision=bf16"]


def test_a_way_that_the_model_does_not_have_is_not_named(capsys):
    """The toy policy has neither bf16 nor adapters."""
    assert main([*TOY, "cluster.inventory=1x1.1GB"]) == 1
    out = capsys.readouterr().out
    assert "bf16" not in out and "adapters" not in out


@pytest.mark.long
def test_every_recipe_can_be_planned_on_one_gpu(capsys):
    recipes = Catalog(load_plugins()).options("experiment")
    words = ["env.train.sentences=own", "cluster.inventory=1x80GB"]
    assert len(recipes) >= 16
    for name in recipes:
        assert main(["plan", name, *words]) == 0, capsys.readouterr()


def test_the_plan_command_of_a_configuration():
    words = ["env=toy", "model=toy", "algorithm=ppo"]
    given = ["actor.micro_batch_size=8", "cluster.num_nodes=2", "cluster.inventory=2x8x80GB"]
    config = compose([*words, *given, "runner.only_eval=true"])
    command = plan_command(config, [*words, *given, "runner.logger.logger_backends=[wandb]"])
    assert command == (
        "rlcore plan env=toy model=toy algorithm=ppo runner.only_eval=true "
        "actor.micro_batch_size=8 cluster.inventory=2x8x80GB"
    )
