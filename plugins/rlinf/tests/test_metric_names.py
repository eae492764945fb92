"""Metrics are logged under the names of RLinf's documentation too."""

from rlcore_rlinf.plugin import rlcore_metric_names
from rlcore_tools.metric_names import metric_names, under_further_names


def test_metrics_have_their_further_names():
    metrics = {"train/actor/policy_loss": 0.5, "train/critic/value_loss": 2.0}
    assert under_further_names(metrics) == {"actor/loss": 0.5, "actor/value_loss": 2.0}
    assert metric_names() == rlcore_metric_names()
    assert not set(metric_names()) & set(metric_names().values())
