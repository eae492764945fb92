"""A policy that succeeds much less as it samples causes a warning with the key to set."""

import pytest

from rlcore.runs.tables import EpisodeResult
from rlcore.training.evaluate import sampling_warning


def rows(successes: int, n: int = 4) -> list[EpisodeResult]:
    return [EpisodeResult("push", i, 0, i < successes, 0.0, 5, "any") for i in range(n)]


def test_the_warning_names_the_key_that_scales_the_noise_and_half_its_value():
    (said,) = sampling_warning(rows(3), rows(0), "openpi.noise_level", 0.5)
    assert "the model's own noise" in said
    assert "none of 4" in said and "3 of 4" in said
    assert "actor.model.openpi.noise_level=0.25" in said
    (said,) = sampling_warning(rows(3), rows(0), "openpi.noise_params", [0.7, 0.3, 400.0])
    assert "actor.model.openpi.noise_params" in said and "[0.7, 0.3, 400.0]" in said
    (said,) = sampling_warning(rows(3), rows(0), "", None)
    assert "actor.model" not in said


@pytest.mark.parametrize(
    ("deterministic", "sampled", "n", "warned"),
    [
        (50, 20, 100, True),  # 0.2 against 0.5
        (50, 25, 100, True),
        (50, 26, 100, False),  # more than half as often
        (3, 1, 4, False),  # half as often, but of four episodes
        (0, 0, 4, False),
    ],
)
def test_success_that_noise_halves_causes_a_warning(deterministic, sampled, n, warned):
    said = list(sampling_warning(rows(deterministic, n), rows(sampled, n), "init_std", 0.2))
    assert len(said) == warned
    assert all(f"solved {sampled} of {n}" in line for line in said)
