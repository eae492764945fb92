"""LIBERO on its own assets: what is simulated and seen is what LIBERO's own env has."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from internals import compose
from libero_cases import needs_assets
from libero_scenes import drawn, places, require_liberos_own, started, waited
from PIL import Image
from rlcore_env_libero import plugin
from rlcore_env_libero.assets import assets_folder
from rlcore_env_libero.suites import SUITES

pytestmark = needs_assets
ALL = SUITES["libero_130"]
ON_THE_RAMEKIN = "pick_up_the_black_bowl_on_the_ramekin_and_place_it_on_the_plate"
# of all suites every tenth task in `make test-all`, the others in `make test-exhaustive`
EACH = [
    pytest.param(number, marks=pytest.mark.exhaustive if number % 10 else pytest.mark.long)
    for number in range(len(ALL))
]
MOVES = np.random.default_rng(0).uniform(-1, 1, (3, 7)).astype(np.float32)


@pytest.mark.quick(2)
@pytest.mark.filterwarnings("ignore:libero_")  # has its own time limit
@pytest.mark.parametrize("suite", SUITES)
def test_the_printed_recipe_lacks_no_code_and_no_assets(suite: str) -> None:
    run = compose(["experiment=libero_10_grpo_openvlaoft", f"env={suite}"], require=("env",))
    _, code, assets = plugin.rlcore_doctor(run)
    assert code["status"] == assets["status"] == "ok"
    assert assets["detail"] == str(assets_folder(None))


@pytest.mark.long
@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "task",
    [
        pytest.param(task, marks=[] if number % 4 == 1 else [pytest.mark.long])
        for number, task in enumerate(SUITES["libero_10"])
    ],
)
def test_each_task_of_long_starts_unsolved_and_at_rest(task: str) -> None:
    """Kitchens, living rooms and studies."""
    simulator = started(task, stand_ins=False, settle_steps=10)
    assert all(frame.std() > 10 for frame in drawn(simulator, 32).values())
    before = places(simulator)
    assert len(before) >= 2 and not waited(simulator, 10)
    for name, place in places(simulator).items():
        np.testing.assert_allclose(place, before[name], rtol=0, atol=3e-3, err_msg=name)


@pytest.mark.parametrize("number", EACH, ids=ALL)
def test_a_start_of_each_task_is_liberos_own(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # robosuite takes every text for numbers of GPUs, and tests set an empty one
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    require_liberos_own(ALL[number], number % 50, MOVES, assets_folder(None), stand_ins=False)


@pytest.mark.parametrize("number", EACH, ids=ALL)
def test_stand_ins_rest_where_liberos_own_do(number: int) -> None:
    """One start of each task. Where things overlap at the start they push each other further apart
    than LIBERO's own do, which the page says of Spatial."""
    task, trial = ALL[number], number % 50
    own, ours = (
        places(started(task, trial, stand_ins=stand_ins, settle_steps=10))
        for stand_ins in (False, True)
    )
    assert own.keys() == ours.keys()
    allowed = 0.015 if task == ON_THE_RAMEKIN else 0.0026
    for name, place in ours.items():
        np.testing.assert_allclose(place, own[name], rtol=0, atol=allowed, err_msg=name)


@pytest.mark.long
def test_the_pages_lines_draw_its_picture(elsewhere: Path) -> None:
    """In its size: colours are those of the machine's renderer, nearly."""
    page = Path(__file__).parents[4] / "docs" / "libero.md"
    (lines,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    exec(compile(lines, str(page), "exec"), {})
    ours, shown = (
        np.array(Image.open(f), int) for f in ("libero.png", page.with_name("libero.png"))
    )
    assert ours.shape == shown.shape == (160, 800, 3)
    assert np.abs(ours - shown).mean() < 5
