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
def test_what_is_refused_is_what_the_table_says(combination, cell):
    reward, level, v = combination
    said = refusal(reward_type=reward, logprob_type=level, value_dim=v, num_action_chunks=5)
    words = {
        "legal": None,
        "one value": "one reward per chunk has one value",
        "one ratio": "one ratio per chunk can't be weighed by C advantages",
        "C values": "advantages per action need a value per action",
    }[cell]
    assert said is None if words is None else said is not None and said.startswith(words)


@pytest.mark.parametrize("combination", published(), ids=str)
def test_with_one_action_per_chunk_everything_is_legal(combination):
    reward, level, v = combination
    width = min(v, 1)
    assert (
        refusal(reward_type=reward, logprob_type=level, value_dim=width, num_action_chunks=1)
        is None
    )


def test_a_width_that_is_neither_1_nor_C_is_refused():
    assert "1 or C = 5, got 3" in str(
        refusal(
            reward_type="chunk_level", logprob_type="chunk_level", value_dim=3, num_action_chunks=5
        )
    )


def test_is_light():
    code = "import sys, rlcore_policy_gradient.levels; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
