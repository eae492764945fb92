"""What is said of a run after which success fell."""

import pytest
from rlcore_tools import summary_lines


@pytest.mark.parametrize(
    ("mean", "hi", "said"),
    [(-0.43, -0.34, "warning: success fell by 0.430 over the run; look at"),
     (-0.08, 0.02, "warning: success fell by 0.080 over the run, though not significantly"),
     (0.0, 0.1, ""), (0.2, 0.3, "")],
)  # fmt: skip
def test_a_run_after_which_success_fell_says_so_at_its_end(mean, hi, said):
    side = {"rate": 0.5, "n": 100, "lo": 0.4, "hi": 0.6}
    gain = {"mean": mean, "lo": mean - 0.1, "hi": hi}
    summary = {"success_before": side, "success_after": side, "paired_difference": gain}
    lines = summary_lines.lines(summary)
    warnings = [line for line in lines if line.startswith("warning")]
    assert [line.startswith(said) for line in warnings] == [True] * bool(said)
