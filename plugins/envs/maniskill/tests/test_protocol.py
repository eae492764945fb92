"""The protocol of the published table: its columns, what stands in each, and how they are averaged.

The published figures are those of RLinf's documentation.
"""

from __future__ import annotations

import pytest
from rlcore_env_maniskill.protocol import OOD
from rlcore_env_maniskill.put_on_plate.variants import VARIANTS
from rlcore_env_maniskill.settings import ManiSkillConfig
from rlcore_env_maniskill.spec import env_spec

from rlcore.training.protocol.table import protocol_rows

COLUMNS = ["Training setting (IND)", "Vision", "Semantic", "Execution"]
TEST, TRAIN = "test", "train"

# By model: episodes of a setting; successes of each column, found as the only whole numbers that
# round to its published percentage (such as 702 of 7 x 128 = 896: 78.35); the published row.
PUBLISHED = {
    "RL4VLA (PPO)": (128, (120, 515, 672, 314), (93.75, 80.47, 75.00, 81.77, 79.15)),
    "PPO-OpenVLA": (128, (123, 525, 702, 328), (96.09, 82.03, 78.35, 85.42, 81.93)),
    "GRPO-OpenVLA": (128, (108, 478, 654, 299), (84.38, 74.69, 72.99, 77.86, 75.15)),
    "OpenVLA-OFT (Base)": (256, (72, 355, 232, 90), (28.13, 27.73, 12.95, 11.72, 18.29)),
    "PPO-OpenVLA-OFT": (256, (250, 1179, 1162, 565), (97.66, 92.11, 64.84, 73.57, 77.05)),
    "GRPO-OpenVLA-OFT": (256, (241, 1084, 816, 343), (94.14, 84.69, 45.54, 44.66, 60.64)),
}


def test_the_settings_of_each_column_are_the_sixteen_of_the_original():
    def setting(changes: dict) -> tuple[str, str]:
        (task,) = changes["tasks"]
        return task.removeprefix("PutOnPlateInScene25"), changes["object_set"]

    assert {column: [*map(setting, rows.values())] for column, rows in OOD.groups.items()} == {
        "Training setting (IND)": [("Main-v3", TRAIN)],
        "Vision": [
            ("VisionImage-v1", TEST),
            ("VisionTexture03-v1", TEST),
            ("VisionTexture05-v1", TEST),
            ("VisionWhole03-v1", TEST),
            ("VisionWhole05-v1", TEST),
        ],
        "Semantic": [
            ("Carrot-v1", TEST),
            ("Plate-v1", TEST),
            ("Instruct-v1", TEST),
            ("MultiCarrot-v1", TEST),
            ("MultiPlate-v1", TEST),
            ("MultiCarrot-v1", TRAIN),
            ("MultiPlate-v1", TRAIN),
        ],
        "Execution": [("Position-v1", TEST), ("EEPose-v1", TEST), ("PositionChangeTo-v1", TEST)],
    }


def test_the_original_plays_the_training_setting_under_another_name():
    """Its sixteenth setting is Carrot-v1 with the objects of training."""
    main, carrot = (VARIANTS[name].episodes(TRAIN) for name in ("Main", "Carrot"))
    assert main == carrot
    assert VARIANTS["Main"].second is VARIANTS["Carrot"].second is None


@pytest.mark.parametrize(("name", "others"), [("MultiCarrot", 15), ("MultiPlate", 16)])
def test_with_the_things_of_training_only_a_second_one_is_new(name: str, others: int):
    """One of the 15 other objects of training, or one of the 16 plates that are not in it."""
    sizes = {factor.name: factor.size for factor in VARIANTS[name].episodes(TRAIN).factors}
    training = {factor.name: factor.size for factor in VARIANTS["Main"].episodes(TRAIN).factors}
    assert sizes.pop("second") == others
    assert sizes.pop("place") != training.pop("place")  # three things need other places than two
    assert sizes == training


def test_a_row_is_128_episodes_of_one_task_of_eighty_steps():
    for rows in OOD.groups.values():
        for changes in rows.values():
            config = ManiSkillConfig(**changes)
            spec = env_spec(config)
            assert (spec.tasks, spec.max_episode_steps) == (tuple(changes["tasks"]), 80)
            assert config.trials_per_task == 128 <= len(spec.heldout_trials)


def test_the_published_rows_are_these_and_the_base_model_of_openvla():
    rows = [tuple(row.figures.values()) for row in OOD.published]
    assert rows == [(53.91, 38.75, 35.75, 42.11, 39.10), *(row for _, _, row in PUBLISHED.values())]


@pytest.mark.parametrize("model", PUBLISHED)
def test_our_averages_of_the_published_counts_are_the_published_figures(model: str):
    episodes, successes, published = PUBLISHED[model]
    played = {}
    for (column, rows), total in zip(OOD.groups.items(), successes, strict=True):
        # how a column's successes are spread over its settings is not published, and is no matter
        each = [total // len(rows) + (i < total % len(rows)) for i in range(len(rows))]
        played[column] = {
            row: [(i < wins,) for i in range(episodes)]
            for row, wins in zip(rows, each, strict=True)
        }
    table = {row.label: row for row in protocol_rows(played, OOD.averages, OOD.totals)}
    ours = [100 * table[column].rate for column in [*COLUMNS, "Average of OOD"]]
    assert ours == pytest.approx(published, abs=0.00501)  # they have two digits
    assert table["Average of OOD"].n == 16 * episodes
    assert 100 * table["Mean of the suites"].rate == pytest.approx(sum(ours[1:4]) / 3)
