"""Headers of stored weights, compared with a network's shapes."""

from __future__ import annotations

from pathlib import Path

from rlcore_weights.headers import TensorHeader, check_fit

from rlcore.contracts.errors import CheckpointError


def test_one_refusal_names_all_that_does_not_fit(refused):
    stored = {
        "same": TensorHeader("F16", (2,)),
        "other": TensorHeader("F32", (2, 3)),
        "count": TensorHeader("I64", (1,)),
        "more": TensorHeader("F32", (1,)),
    }
    wanted = {"same": (2,), "other": (3, 2), "count": (1,), "less": (4,)}
    with refused(CheckpointError, "(1): less", "(1): more", "other is [2, 3]", "[3, 2]", "I64"):
        check_fit(Path("f"), stored, wanted, hint="do this")
    check_fit(Path("f"), {"same": stored["same"]}, {"same": (2,)}, hint="")


def test_a_critic_may_be_missing_as_a_whole_and_not_in_part(refused):
    body, weight, bias = (TensorHeader("F32", shape) for shape in [(3,), (2, 3), (2,)])
    wanted = {"body": (3,), "value.weight": (2, 3), "value.bias": (2,)}
    critic = ("value.weight", "value.bias")
    check_fit(Path("f"), {"body": body}, wanted, hint="", drawn=critic)
    whole = {"body": body, "value.weight": weight, "value.bias": bias}
    check_fit(Path("f"), whole, wanted, hint="", drawn=critic)
    with refused(CheckpointError, "missing (1): value.bias", text=False):
        partial = {"body": body, "value.weight": weight}
        check_fit(Path("f"), partial, wanted, hint="", drawn=critic)
    with refused(CheckpointError, "missing (2): value.bias, value.weight", text=False):
        check_fit(Path("f"), {"body": body}, wanted, hint="")
