"""A protocol's table, with published figures below ours."""

from rlcore.contracts.specs import ProtocolSpec, Published
from rlcore.training.protocol.table import headline, protocol_rows


def test_published_figures_stand_below_ours():
    spec = ProtocolSpec(
        env="toy",
        groups={"Easy": {"a": {}}, "Hard": {"b": {}}},
        averages={"Avg.": ("Easy", "Hard")},
        published=(
            Published("pi0", "PPO", {"Easy": 92.1, "Avg.": 78.1}, "a page", "100 steps"),
            Published("ACT", "supervised", {"Hard": 3.0}, "a page", "100 steps"),
            Published("Octo", "supervised", {"Hard": 4.0}, "a paper"),
        ),
        differs=("starts are ours",),
    )
    played = {"Easy": {"a": [(True,), (True,)]}, "Hard": {"b": [(True,), (False,)]}}
    text = headline(protocol_rows(played, spec.averages, spec.totals), "two tasks", spec)
    cells = [
        [cell.strip() for cell in line.strip("│┃").replace("┃", "│").split("│")]
        for line in text.splitlines()
        if line[0] in "│┃"
    ]
    # two of two: [0.342, 1]; one of two: [0.095, 0.905]
    assert cells == [
        ["", "Easy", "Hard", "Avg."],
        ["this policy", "100.00%", "50.00%", "75.00%"],
        ["95% interval", "34.2 .. 100.0", "9.5 .. 90.5", ""],
        ["pi0, PPO", "92.10%", "", "78.10%"],
        ["ACT, supervised", "", "3.00%", ""],
        ["Octo, supervised", "", "4.00%", ""],
    ]
    assert text.splitlines()[-3:] == [
        "published: a page (100 steps)",
        "published: a paper",
        "differs: starts are ours",
    ]
