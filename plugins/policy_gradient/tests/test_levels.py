"""Which combinations are legal: the table that docs/algorithms.md publishes, row by row."""

import subprocess
import sys
from pathlib import Path

import pytest
from rlcore_policy_gradient.levels import refusal

PAGE = Path(__file__).parents[3] / "docs" / "algorithms.md"
LEVELS = ("token_level", "action_level", "chunk_level")


def published():
    """`{(reward_type, logprob_type, V): cell}` with V of a policy of C = 5."""
    lines = (
        PAGE.read_text().split("## Rewards, ratios and values")[1].split("\n## ")[0].splitlines()
    )
    rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in lines if "|" in line]
    assert rows[0] == ["reward_type", "logprob_type", "no critic", "V = 1", "V = C"]
    return {
        (row[0], row[1], value_dim): cell
        for row in rows[2:]
        for value_dim, cell in zip((0, 1, 5), row[2:], strict=True)
    }


def test_the_table_has_every_combination():
    wanted = {
        (reward, level, v)
        for reward in ("chunk_level", "action_level")
        for level in LEVELS
        for v in (0, 1, 5)
    }
    assert published().keys() == wanted


@pytest.mark.parametrize(("combination", "cell"), published().items(), ids=str)
def test_illegal_combinations_are_those_of_the_table(combination, cell, snapshot):
    """With one action per chunk everything is legal."""
    reward, level, v = combination
    message = refusal(reward_type=reward, logprob_type=level, value_dim=v, num_action_chunks=5)
    assert (message is None) == (cell == "legal")
    if message is not None:
        assert message == snapshot(name=cell)
    width = min(v, 1)
    levels = {"reward_type": reward, "logprob_type": level}
    assert refusal(**levels, value_dim=width, num_action_chunks=1) is None


def test_a_width_that_is_neither_1_nor_C_is_refused():
    levels = {"reward_type": "chunk_level", "logprob_type": "chunk_level"}
    message = refusal(**levels, value_dim=3, num_action_chunks=5)
    assert message is not None and "C = 5" in message and "3" in message


def test_the_table_loads_no_tensor_library():
    code = "import sys, rlcore_policy_gradient.levels; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
