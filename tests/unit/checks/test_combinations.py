"""The table of legal combinations, and the checks that stand on it."""

import subprocess
import sys

import pytest

from rlcore.checks.combinations import COMBINATIONS, check_combination, refusal, table
from rlcore.errors import ConfigError

LEGAL = {  # reward_type, logprob_type, V for C > 1: written down by hand
    *(
        ("chunk_level", level, v)
        for level in ("token_level", "action_level", "chunk_level")
        for v in ("0", "1")
    ),
    ("action_level", "token_level", "0"),
    ("action_level", "token_level", "C"),
    ("action_level", "action_level", "0"),
    ("action_level", "action_level", "C"),
}


def test_table_lists_every_combination_once_with_the_legal_ones_by_hand():
    keys = [(c.reward_type, c.logprob_type, c.value_width) for c in COMBINATIONS]
    assert len(keys) == len(set(keys)) == 2 * 3 * 3
    assert {k for k, c in zip(keys, COMBINATIONS, strict=True) if c.legal} == LEGAL
    assert len(table().splitlines()) == 2 + len(keys)


@pytest.mark.parametrize(
    "row", COMBINATIONS, ids=lambda c: f"{c.reward_type}-{c.logprob_type}-{c.value_width}"
)
def test_check_follows_the_table(row):
    width = {"0": 0, "1": 1, "C": 5}[row.value_width]
    settings = {
        "reward_type": row.reward_type,
        "logprob_type": row.logprob_type,
        "value_dim": width,
        "num_action_chunks": 5,
    }
    if row.legal:
        check_combination(**settings)
        return
    with pytest.raises(ConfigError) as error:
        check_combination(**settings)
    assert row.reason in str(error.value)
    assert row.reward_type in str(error.value) and f"width {width}" in str(error.value)


def test_with_one_action_per_chunk_everything_is_legal():
    for row in COMBINATIONS:
        assert (
            refusal(
                reward_type=row.reward_type,
                logprob_type=row.logprob_type,
                value_dim=0 if row.value_width == "0" else 1,
                num_action_chunks=1,
            )
            is None
        )


def test_a_width_that_is_neither_1_nor_C_is_refused():
    assert "1 or C = 5, got 3" in str(
        refusal(
            reward_type="chunk_level", logprob_type="chunk_level", value_dim=3, num_action_chunks=5
        )
    )


def test_is_light():
    code = "import sys, rlcore.checks.combinations; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
