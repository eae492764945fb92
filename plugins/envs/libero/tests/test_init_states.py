"""Init states: the arrays that torch would load, and nothing that a pickle may call."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from libero_cases import SOUP, needs_libero
from rlcore_env_libero.init_states import read_init_states
from rlcore_env_libero.installed import libero_folder
from rlcore_env_libero.problem import init_file, read_problem, task_file
from rlcore_env_libero.suites import SUITES
from rlcore_stand_ins.libero.fixtures import FIXTURES
from rlcore_stand_ins.libero.objects import OBJECTS
from rlcore_stand_ins.libero.shapes import Body

from rlcore.contracts.errors import AssetError

ROBOT = 9  # joints: seven of the arm, two fingers
FREE = 7 + 6  # positions and velocities of an object


def archive(file: Path, content: object) -> Path:
    """What `torch.save` makes of something that is no tensor."""
    with zipfile.ZipFile(file, "w") as zipped:
        zipped.writestr("archive/data.pkl", pickle.dumps(content, protocol=2))
    return file


@needs_libero
def test_init_states_equal_those_that_torch_loads() -> None:
    torch = pytest.importorskip("torch")
    file = init_file(libero_folder(), SOUP)
    states = read_init_states(file)
    np.testing.assert_array_equal(states, torch.load(file, weights_only=False))
    # time; the robot; six groceries and the basket
    assert states.shape == (50, 1 + 2 * ROBOT + 7 * FREE)


@needs_libero
def test_stand_ins_have_the_joints_of_every_tasks_init_states() -> None:
    """All 130 tasks: 50 states each, as long as time, robot, objects and fixtures' joints make."""

    def joints(body: Body) -> int:
        return (body.joint is not None) + sum(joints(inner) for inner in body.bodies)

    libero = libero_folder()
    for task in SUITES["libero_130"]:
        problem = read_problem(task_file(libero, task))
        moving = sum(
            joints(FIXTURES[category].body)
            for category in problem.fixtures.values()
            if category in FIXTURES
        )
        assert set(problem.objects.values()) <= OBJECTS.keys(), task
        size = 1 + 2 * (ROBOT + moving) + FREE * len(problem.objects)
        assert read_init_states(init_file(libero, task)).shape == (50, size), task


def test_arrays_of_this_numpy_are_read(tmp_path: Path) -> None:
    states = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(read_init_states(archive(tmp_path / "one", states)), states)


class _Call:
    """Pickled, it calls a function when it is loaded."""

    def __reduce__(self) -> tuple:
        return os.mkdir, ("called",)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (_Call(), "mkdir"),
        ([1.0, 2.0], "list"),
        (np.zeros(3), "float64"),
        (np.zeros((2, 2), dtype=np.int64), "float64"),
    ],
)
def test_other_content_is_refused(
    refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: object, found: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with refused(AssetError, found, text=False):  # names the command of this environment
        read_init_states(archive(tmp_path / "bad", content))
    assert not (tmp_path / "called").exists()


@pytest.mark.parametrize("damage", ["missing", "empty", "cut"])
def test_a_damaged_file_is_named(refused, tmp_path: Path, damage: str) -> None:
    file = tmp_path / "states"
    if damage == "empty":
        file.write_bytes(b"")
    if damage == "cut":
        whole = archive(file, np.zeros((2, 3))).read_bytes()
        file.write_bytes(whole[: len(whole) // 2])
    with refused(AssetError, file, "--force-reinstall", text=False):
        read_init_states(file)
