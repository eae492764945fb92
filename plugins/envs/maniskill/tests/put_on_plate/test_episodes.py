"""Episode ids: digits, ranges, trials."""

from __future__ import annotations

import pytest
import torch
from rlcore_env_maniskill.put_on_plate.episodes import SPLITS, Episodes, Factor
from rlcore_env_maniskill.put_on_plate.variants import OBJECT_SETS, VARIANTS
from rlcore_env_maniskill.tasks import FACTORS

from rlcore.contracts.errors import ConfigError

SMALL = Episodes((Factor("object", 3, 10), Factor("table", 2), Factor("yaw", 4)))


def test_an_id_is_a_number_with_the_first_factor_most_significant() -> None:
    # 3 * 2 * 4 = 24 episodes; 21 = 2 * 8 + 1 * 4 + 1, and 21 + 24 is the same one
    assert SMALL.total == 24
    chosen = SMALL.choices(torch.tensor([0, 21, 45]))
    assert {name: values.tolist() for name, values in chosen.items()} == {
        "object": [10, 12, 12],
        "table": [0, 1, 1],
        "yaw": [0, 1, 1],
    }
    assert SMALL.id_of(object=12, table=1, yaw=1) == 21


def test_every_id_comes_back() -> None:
    ids = torch.arange(24)
    chosen = SMALL.choices(ids)
    rows = [{name: int(values[row]) for name, values in chosen.items()} for row in range(24)]
    assert [SMALL.id_of(**row) for row in rows] == ids.tolist()


def test_a_choice_out_of_range_is_named(refused) -> None:
    with refused(ConfigError, "object", "10 to 12", "13"):
        SMALL.id_of(object=13)
    with refused(ConfigError, "plate"):
        SMALL.id_of(plate=0)


def test_held_factors_are_fixed_and_leave_the_others_unchanged(refused) -> None:
    held = SMALL.held({"table": 1, "object": 11})
    assert held.total == 4  # the turns
    every, some = (
        each.choices(torch.tensor([each.id_of_trial(trial, split="train") for trial in range(50)]))
        for each in (SMALL, held)
    )
    assert set(some["object"].tolist()) == {11} and set(some["table"].tolist()) == {1}
    assert torch.equal(some["yaw"], every["yaw"])
    with refused(ConfigError, "object", "10 to 12"):
        SMALL.held({"object": 3})
    with refused(ConfigError, "arm"):
        SMALL.held({"arm": 3})


def test_every_factor_of_episodes_can_be_held() -> None:
    sets = (variant.episodes(which) for variant in VARIANTS.values() for which in OBJECT_SETS)
    assert {factor.name for episodes in sets for factor in episodes.factors} == set(FACTORS)


def test_trials_spread_over_every_factor() -> None:
    chosen = SMALL.choices(
        torch.tensor([SMALL.id_of_trial(trial, split="train") for trial in range(100)])
    )
    assert {name: len(values.unique()) for name, values in chosen.items()} == {
        "object": 3,
        "table": 2,
        "yaw": 4,
    }


@pytest.mark.parametrize("name", ["VisionImage", "VisionTexture03", "Instruct", "EEPose", "Plate"])
def test_a_trial_is_paired_across_variants(name: str) -> None:
    """Trial k differs from trial k of the training setting only in what the variant changes."""
    training, variant = VARIANTS["Main"].episodes("train"), VARIANTS[name].episodes("test")
    for trial in range(20):
        before, after = (
            {key: int(value) for key, value in each.choices(_id(each, trial)).items()}
            for each in (training, variant)
        )
        changed = {key for key in after if after[key] != before.get(key, 0)}
        assert changed <= set(VARIANTS[name].held_out)
        assert changed


def _id(episodes: Episodes, trial: int) -> torch.Tensor:
    return torch.tensor(episodes.id_of_trial(trial, split="train"))


@pytest.mark.long
def test_no_two_splits_start_at_the_same_place() -> None:
    """One object on one table, of which training would meet nearly all 3136 starts."""
    every = VARIANTS["Main"].episodes("train")
    for episodes in (every, every.held({"object": 0, "table": 0})):
        places = {}
        for split in SPLITS:
            ids = [episodes.id_of_trial(trial, split=split) for trial in range(6000)]
            places[split] = set(episodes.choices(torch.tensor(ids))["place"].tolist())
        # none is in two splits, none is left out
        assert sum(map(len, places.values())) == len(set().union(*places.values())) == 784
        assert len(places["heldout"]) / 784 == pytest.approx(0.2, abs=0.05)
        assert len(places["validation"]) / 784 == pytest.approx(0.1, abs=0.05)


def test_a_factor_that_can_not_be_divided_is_in_all_splits() -> None:
    one_place = VARIANTS["Main"].episodes("train").held({"place": 5})
    corners = VARIANTS["PutCarrot"].episodes("train")
    for episodes, count in ((one_place, 1), (corners, 12)):
        for split in SPLITS:
            ids = [episodes.id_of_trial(trial, split=split) for trial in range(200)]
            assert len(episodes.choices(torch.tensor(ids))["place"].unique()) == count


def test_counts_of_the_benchmark() -> None:
    """Worked from the factors: 784 pairs and 2,104 triples of the 36 points, 4 turns."""

    def total(name: str, obj_set: str) -> int:
        return VARIANTS[name].episodes(obj_set).total

    assert total("Main", "train") == 16 * 1 * 16 * 784 * 4
    assert total("Main", "test") == 9 * 1 * 5 * 784 * 4
    assert total("Main", "all") == 25 * 1 * 21 * 784 * 4
    assert VARIANTS["Main"].episodes("train", all_plates=True).total == 17 * total("Main", "train")
    assert total("Plate", "test") == 16 * 16 * 16 * 784 * 4
    assert total("MultiCarrot", "test") == 9 * 8 * 16 * 2104 * 4
    assert total("MultiPlate", "test") == 16 * 16 * 15 * 16 * 2104 * 4
    assert total("Instruct", "test") == 16 * 16 * 16 * 784 * 4
    # 28 points of the ring give 628 pairs; 23 of 25 leans of shoulder and elbow, 5**4 of the rest,
    # less the one of training
    assert total("Position", "test") == 16 * 16 * 628 * 4
    assert total("EEPose", "test") == 16 * (23 * 5**4 - 1) * 16 * 784 * 4
    assert total("PutCarrot", "train") == 12 * 2


def test_without_its_held_out_values_a_variant_is_the_training_setting() -> None:
    main = VARIANTS["Main"].episodes("train").total
    for name in ("VisionImage", "VisionTexture03", "Carrot", "Plate", "Instruct", "Position"):
        assert VARIANTS[name].episodes("train").total == main


def test_an_unknown_set_is_named(refused) -> None:
    with refused(ConfigError, "obj_set", "held"):
        VARIANTS["Main"].episodes("held")
