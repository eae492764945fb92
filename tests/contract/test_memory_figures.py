"""Figures of memory in comments of recipes and on pages are those of the plan."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from internals import check, compose

from rlcore.cli.main import main
from rlcore.placement import make_plan
from rlcore.placement.described_nodes import read_inventory
from rlcore.placement.memory import CONTEXT, MemoryNeed

pytestmark = pytest.mark.filterwarnings("ignore::rlcore.config.warning.ConfigWarning")

ROOT = Path(__file__).parents[2]
GIB = 2**30
COMMENT = re.compile(r"#.* GiB.*")
NEEDED = "# all weights are trained: whole, they need {} GiB of an accelerator"
TAKEN = (
    "# Activations take {} GiB, which leaves less than a tenth of a GPU of 80 GB free. An update"
)


def whole(recipe: str, *words: str) -> MemoryNeed:
    """What one process holds that acts and learns, undivided."""
    words = (*words, "env.train.sentences=own", "actor.fsdp_config.sharding_strategy=no_shard")
    config = compose([f"experiment={recipe}", *words])
    plan = make_plan(config.cluster, read_inventory("1x1000GB"))
    return check(config, plan=plan).memory["rollout+actor"]


def comments() -> list[tuple[str, str]]:
    """`(recipe, line)` of the comments that name a size."""
    return [
        (file.stem, found[0])
        for file in sorted((ROOT / "configs").rglob("*.yaml"))
        for line in file.read_text().splitlines()
        if (found := COMMENT.search(line))
    ]


def test_comments_are_found():
    assert len(comments()) == 4


@pytest.mark.parametrize(("recipe", "line"), comments())
def test_comments_of_recipes(recipe: str, line: str):
    need = whole(recipe)
    held = round((need.peak + CONTEXT) / GIB)
    activations = round(need.sample * need.samples / GIB)
    assert line in (NEEDED.format(held), TAKEN.format(activations))


def test_openvlas_page():
    page = " ".join((ROOT / "docs/openvla.md").read_text().split())
    need = whole("libero_10_grpo_openvlaoft")
    adapters = whole("libero_10_grpo_openvlaoft", "actor.model.is_lora=true")
    of_all = [
        round(size / GIB) for size in (need.weights, need.weights + need.state, need.stepping)
    ]
    weights, trained, step = of_all
    assert f"parameters take {weights} GiB in bf16" in page
    assert f"in fp32, takes {trained} GiB, and {step} more while AdamW steps" in page
    assert f"of rank 32 take {round((adapters.weights + adapters.state) / GIB)} GiB" in page


def test_the_card_of_the_page_on_hardware(capsys: pytest.CaptureFixture[str]):
    page = (ROOT / "docs/hardware.md").read_text()
    found = re.search(r"```\nrlcore (plan [^`]*)```\s+```\n(.*?)```", page, re.DOTALL)
    assert found is not None
    assert main(shlex.split(found[1])) == 0
    assert found[2] in capsys.readouterr().out


FULLEST = re.compile(r"the fullest GPU holds (\S+) GiB of 79.10 GiB; .* hold (\S+) GiB of")


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[float, float]:
    """GiB of the fullest GPU, and of main memory."""
    assert main(["train", *words, "--dry-run", "cluster.inventory=8x80GB"]) == 0
    found = FULLEST.search(capsys.readouterr().out)
    assert found is not None
    return float(found[1]), float(found[2])


def test_eight_gpus_of_openvlas_page(capsys: pytest.CaptureFixture[str]):
    names = ("libero_10_grpo_openvlaoft", "metaworld_50_grpo_openvlaoft", "maniskill_grpo_openvla")
    held = [planned(capsys, name, "env.train.sentences=own")[0] for name in names]
    text = f"each holds {int(min(held))} to {round(max(held))} GiB"
    assert text in (ROOT / "docs/openvla.md").read_text()


def test_the_offload_of_the_page_on_sharding(capsys: pytest.CaptureFixture[str]):
    page = (ROOT / "docs/sharding.md").read_text()
    found = re.search(r"```bash\nrlcore (train [^`]*)```\s+This command says (.*)", page)
    assert found is not None
    words = shlex.split(found[1].replace("\\\n", " "))[1:]
    keys = ("rollout.enable_offload=true", "actor.enable_offload=true")
    (whole, main_before), (left, main_after) = (
        planned(capsys, *words),
        planned(capsys, *words, *keys),
    )
    assert found[2].startswith(
        f"{whole:.2f} GiB on the fullest GPU, and {left:.2f} GiB with both keys, for "
        f"{main_after - main_before:.0f} GiB more"
    )
