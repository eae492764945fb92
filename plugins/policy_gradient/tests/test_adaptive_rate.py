"""A learning rate that follows the KL, by hand."""

import pytest
from rlcore_policy_gradient.adaptive_rate import adapted_factor


@pytest.mark.parametrize(
    ("factor", "kl", "expected"),
    [
        (1.0, 0.021, 2 / 3),  # above twice 0.01
        (1.0, 0.02, 1.0),
        (1.0, 0.005, 1.0),
        (1.0, 0.004, 1.5),  # below half of it
        (0.012, 1.0, 0.01),
        (8.0, 0.004, 10.0),
        (8.0, 0.0, 8.0),  # the policy did not move: all groups of GRPO failed
        (0.3, float("nan"), 0.3),
    ],
)
def test_the_factor_follows_the_kl_within_bounds(factor, kl, expected):
    assert adapted_factor(factor, kl=kl, desired=0.01) == pytest.approx(expected)
