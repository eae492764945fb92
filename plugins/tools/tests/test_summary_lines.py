"""The last lines of a run after which success fell."""

import pytest
from rlcore_tools import summary_lines


@pytest.mark.parametrize(
    ("mean", "hi", "fall", "significant"),
    [(-0.43, -0.34, "0.430", True), (-0.08, 0.02, "0.080", False), (0.0, 0.1, "", None)],
)
def test_a_fall_of_success_is_a_warning_at_the_end(mean, hi, fall, significant):
    side = {"rate": 0.5, "n": 100, "lo": 0.4, "hi": 0.6}
    gain = {"mean": mean, "lo": mean - 0.1, "hi": hi}
    summary = {"success_before": side, "success_after": side, "paired_difference": gain}
    lines = summary_lines.lines(summary)
    warnings = [line for line in lines if line.startswith("warning")]
    assert len(warnings) == bool(fall) and all(fall in line for line in warnings)
    assert all(("not significantly" in line) is not significant for line in warnings)
