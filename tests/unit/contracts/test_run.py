"""A plugin steers a run, and wrong values change nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlcore.contracts.errors import PluginError
from rlcore.contracts.run import MAX_STORED_DEPTH, Run
from rlcore.files.reading import check_depth


@pytest.fixture
def run() -> Run:
    return Run(config=None, folder=Path("logs/x"), tasks=("left", "right"))


def test_a_factor_or_weight_that_is_not_set_is_one(run: Run):
    assert dict(run.lr_factors) == {"policy": 1.0, "value": 1.0}
    assert dict(run.task_weights) == {"left": 1.0, "right": 1.0}
    run.set_lr_factors({"policy": 0.5})
    run.set_task_weights({"right": 0})
    assert dict(run.lr_factors) == {"policy": 0.5, "value": 1.0}
    assert dict(run.task_weights) == {"left": 1.0, "right": 0.0}
    run.set_lr_factors({})
    assert dict(run.lr_factors) == {"policy": 1.0, "value": 1.0}


def nested(depth: int) -> list:
    """`depth` + 1 lists in each other."""
    value: list = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda run: run.set_lr_factors({"polcy": 1}), "'policy'"),
        (lambda run: run.set_lr_factors({"value": -1.0}), "-1.0"),
        (lambda run: run.set_lr_factors({"value": float("nan")}), "nan"),
        (lambda run: run.set_task_weights({"left": "2"}), "'2'"),
        (lambda run: run.set_task_weights({"up": 2}), "left, right"),
        (lambda run: run.set_task_weights({"left": 0, "right": 0}), "0"),
        (lambda run: run.stop(""), "''"),
        (lambda run: run.store("mine", {1, 2}), "'mine'"),
        (lambda run: run.store("mine", float("inf")), "'mine'"),
        (lambda run: run.store("mine", nested(MAX_STORED_DEPTH)), "'mine'"),
        (lambda run: run.store("mine", nested(100_000)), "'mine'"),
        (lambda run: run.store("mine", "x" * 2**20), "1048576"),
        (lambda run: run.store(("a", 1), 1), "('a', 1)"),
    ],
)
def test_a_wrong_call_is_refused_and_changes_nothing(
    run: Run, refused: Callable[..., Any], call: Callable[[Run], None], named: str
):
    with refused(PluginError, named, text=named != "'mine'"):  # Python's json words those
        call(run)
    assert vars(run.steering) == vars(Run(None, Path(), ()).steering)


def test_values_that_are_read_can_not_be_written_to(run: Run):
    with pytest.raises(TypeError):
        run.task_weights["left"] = 2.0  # type: ignore[index]
    with pytest.raises(AttributeError):
        run.update = 3  # type: ignore[misc]
    run.store("mine", {"seen": [1]})
    run.stored()["mine"]["seen"].append(2)
    assert run.stored()["mine"] == {"seen": [1]}


def test_brackets_in_a_text_are_not_lists(run: Run):
    run.store("mine", "[" * 200 + '"')
    assert run.stored()["mine"] == "[" * 200 + '"'


def test_a_stored_value_is_at_once_as_a_resume_finds_it(run: Run):
    """JSON has no tuples, and its keys are texts."""
    run.store("mine", {1: (2, 3)})
    assert run.stored()["mine"] == {"1": [2, 3]}


def test_the_first_reason_counts(run: Run):
    run.stop(" enough\n")
    run.stop("more than that")
    assert run.steering.stopped == "enough"


def test_importing_a_run_loads_no_tensor_library():
    code = "import sys, rlcore.contracts.run, rlcore.contracts.episodes\n"
    code += "print({'torch', 'ray'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_deepest_value_is_kept_and_a_checkpoint_can_be_read(run):
    run.store("mine", nested(MAX_STORED_DEPTH - 1))
    check_depth(json.dumps({"state": {"steering": {"kept": dict(run.stored())}}}))
