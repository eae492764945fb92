"""Forwards of a fixed size."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rlcore.contracts.protocols import PolicyOutput
from rlcore.contracts.rng import RowKeys
from rlcore.rollout.decide import decide


class Echo:
    """Answers with its input; remembers the rows of each forward."""

    def __init__(self) -> None:
        self.forwards: list[int] = []

    def act(self, inputs, keys, deterministic):
        x = inputs["x"]
        assert len(keys) == len(x) and keys.tasks == ("a", "b")
        self.forwards.append(len(x))
        tensor = torch.from_numpy(x)
        return PolicyOutput(
            x[:, None, None], tensor[:, None, None], tensor[:, None], {"drawn": tensor}
        )


@pytest.mark.parametrize(
    ("rows", "fixed", "forwards"),
    [
        (5, None, [5]),
        (5, 1, [1] * 5),  # one row is the same row at any place
        (5, 4, [4, 4]),
        (4, 4, [4]),
        (5, 3, [4, 4]),  # 3 + 2 rows, each padded to whole blocks of 4
        (6, 6, [8]),
        (2, 16, [16]),
    ],
)
def test_forwards_are_cut_and_padded(rows: int, fixed: int | None, forwards: list[int]):
    policy = Echo()
    x = np.arange(rows, dtype=np.float32)
    keys = RowKeys(tuple((0, "test", row) for row in range(rows)), ("a", "b"))
    output = decide(policy, {"x": x}, keys, deterministic=False, forward_batch=fixed)
    assert policy.forwards == forwards
    for got in (output.actions, output.logprobs, output.values, output.replay["drawn"]):
        assert np.asarray(got).ravel().tolist() == x.tolist()
