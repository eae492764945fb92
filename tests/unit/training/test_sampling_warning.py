"""A policy that never succeeds as it samples is remarked on, with the key to set."""

from rlcore.runs.tables import EpisodeResult
from rlcore.training.evaluate import sampling_warning


def rows(successes: int) -> list[EpisodeResult]:
    return [EpisodeResult("push", i, 0, i < successes, 0.0, 5, "any") for i in range(4)]


def test_the_warning_names_the_key_that_scales_the_noise():
    (said,) = sampling_warning(rows(3), rows(0), "openpi.noise_level")
    assert "the model's own noise" in said
    assert "none of 4" in said and "3 of 4" in said and "actor.model.openpi.noise_level" in said
    (said,) = sampling_warning(rows(3), rows(0), "")
    assert "actor.model" not in said


def test_a_policy_that_samples_successes_or_never_succeeds_gets_none():
    assert not list(sampling_warning(rows(3), rows(1), "key"))
    assert not list(sampling_warning(rows(0), rows(0), "key"))
