"""The schedule of the coefficients that hold a policy near its start, by hand."""

import pytest
from rlcore_policy_gradient.decay import decay
from rlcore_policy_gradient.settings import OnPolicyNeeds, PolicyGradientConfig

from rlcore.contracts.errors import ConfigError


def settings(**keys) -> PolicyGradientConfig:
    return PolicyGradientConfig(name="toy", **keys)


@pytest.mark.parametrize(
    ("start", "end", "update", "expected"),
    [
        (None, 1.0, 9, 1.0),
        (1 / 3, 1.0, 0, 1.0),
        (1 / 3, 1.0, 4, 1.0),  # a third of 12 updates is done
        (1 / 3, 1.0, 8, 0.5),  # (1 - 2/3) / (1 - 1/3)
        (1 / 3, 1.0, 11, 0.125),  # (1 - 11/12) / (2/3)
        (0.0, 0.5, 3, 0.5),  # (0.5 - 0.25) / 0.5
        (0.0, 0.5, 6, 0.0),
        (0.0, 0.5, 11, 0.0),
    ],
)
def test_the_factor_by_share_of_twelve_updates(start, end, update, expected):
    config = settings(decay_start=start, decay_end=end)
    assert decay(config, update, 12) == pytest.approx(expected)


def test_a_constant_coefficient_needs_no_end_of_training():
    assert not OnPolicyNeeds.of(settings(kl_beta=1.0)).limited_updates
    assert OnPolicyNeeds.of(settings(kl_beta=1.0, decay_start=0.3)).limited_updates
    assert decay(settings(), 3, None) == 1.0


def test_an_end_before_the_start_is_refused(refused):
    with refused(ConfigError, "algorithm.decay_end", 0.5, 0.25):
        OnPolicyNeeds.of(settings(kl_beta=1.0, decay_start=0.5, decay_end=0.25))


def test_a_schedule_of_nothing_is_refused(refused):
    with refused(ConfigError, "algorithm.decay_start", "kl_beta", "imitation.coefficient", 0.5):
        OnPolicyNeeds.of(settings(decay_start=0.5))
