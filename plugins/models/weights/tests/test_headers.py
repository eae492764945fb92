"""Headers of stored weights, compared with a network's shapes."""

from __future__ import annotations

from pathlib import Path

import pytest
from rlcore_weights.headers import TensorHeader, check_fit

from rlcore.contracts.errors import CheckpointError


def test_all_that_does_not_fit_is_told_at_once():
    stored = {
        "same": TensorHeader("F16", (2,)),
        "other": TensorHeader("F32", (2, 3)),
        "count": TensorHeader("I64", (1,)),
        "more": TensorHeader("F32", (1,)),
    }
    wanted = {"same": (2,), "other": (3, 2), "count": (1,), "less": (4,)}
    with pytest.raises(CheckpointError) as caught:
        check_fit(Path("f"), stored, wanted, hint="do this")
    assert caught.value.message.splitlines() == [
        "f does not fit the network",
        "  missing (1): less",
        "  unexpected (1): more",
        "  wrong shape (1): other is [2, 3], the network's is [3, 2]",
        "  not floating point (1): count is I64",
    ]
    assert caught.value.hint == "do this"
    check_fit(Path("f"), {"same": stored["same"]}, {"same": (2,)}, hint="")
