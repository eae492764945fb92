"""Metrics are logged under the names of RLinf's documents too."""

from rlcore_tools.other_names import OTHER_NAMES, other_names


def test_other_names_copy_what_is_there():
    metrics = {"train/actor/policy_loss": 2.0, "time/env": 1.0}
    metrics |= other_names(metrics)
    assert metrics == {"train/actor/policy_loss": 2.0, "time/env": 1.0, "actor/loss": 2.0}
    assert not set(OTHER_NAMES) & set(OTHER_NAMES.values())
