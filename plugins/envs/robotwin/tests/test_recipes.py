"""What `--dry-run` says of the recipes of RoboTwin's document, on a machine without RoboTwin."""

from __future__ import annotations

import re
from importlib.metadata import version

import pytest

from rlcore.cli.main import main

PI0, PI05 = ("3,238,737,681", "315,402,273"), ("3,354,123,025", "430,787,617")
# By recipe: parameters, and those that are trained.
RECIPES = {
    "robotwin_place_empty_cup_grpo_openvlaoft": ("7,668,908,224", "125,969,152"),
    "robotwin_adjust_bottle_ppo_OpenPI": PI0,
    "robotwin_adjust_bottle_ppo_openpi_eval": (PI0[0], "0"),
    "robotwin_adjust_bottle_ppo_openpi_pi05": PI05,
    "robotwin_adjust_bottle_ppo_openpi_pi05_eval": (PI05[0], "0"),
}
TINY_MACHINE = "cluster.inventory=2cpu"  # 8 GiB


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_dry_run_shows_plan_memory_and_interpreters(
    recipe: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("ROBOTWIN_PATH", "ASSETS_PATH", "ROBOT_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    assert main(["train", recipe, TINY_MACHINE, "actor.micro_batch_size=8", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    parameters, trained = RECIPES[recipe]
    assert re.search(rf": {parameters} parameters in (fp32|bf16), {trained} trained\n", printed)
    assert re.search(r"rollout\+actor .* \d+\.\d\d GiB", printed) and "TOO MUCH" in printed
    known = recipe.replace("OpenPI", "openpi").replace("_eval", " runner.only_eval=true")
    planned = f"experiment={known} {TINY_MACHINE} actor.micro_batch_size=8"
    assert f"fix: rlcore plan {planned}\n" in printed
    sides = ("eval",) if recipe.endswith("_eval") else ("train", "eval")
    assert re.findall(r"^ok +env\.(\w+)\.python: ", printed, re.M) == list(sides)
    for side in sides:
        line = rf"env.{side}.python: .* python 3\.[\d.]+, numpy {re.escape(version('numpy'))}"
        assert re.search(line, printed)
    missing = dict(re.findall(r"missing  robotwin: (.*?): .*\n +fix: (.*)\n", printed))
    assert missing["the simulators' environment"] == "rlcore venv create robotwin"
    assert missing["repository"].startswith("git clone ")
    assert missing["repository"].endswith("export ROBOTWIN_PATH=$PWD/RoboTwin")
    assert len(missing) == 2


def test_an_evaluation_is_planned_without_an_optimizer(capsys: pytest.CaptureFixture[str]) -> None:
    """Of 315,402,273 trained parameters it lacks 12 bytes each, 3.52 GiB, what an update takes
    beyond acting, and the decisions that are stored for it."""
    held = []
    for words in ([], ["runner.only_eval=true"]):
        main(["train", "robotwin_adjust_bottle_ppo_openpi", TINY_MACHINE, *words, "--dry-run"])
        found = re.search(r"rollout\+actor .* (\d+\.\d\d) GiB", capsys.readouterr().out)
        assert found is not None
        held.append(float(found[1]))
    trained = 315_402_273 * 12 / 2**30
    assert trained - 0.011 < held[0] - held[1] < 3 * trained
