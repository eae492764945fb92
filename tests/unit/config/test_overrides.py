"""What a command line sets."""

from __future__ import annotations

import warnings

import pytest

from rlcore.config.overrides import overridden_keys, parse_overrides, quote


def test_keys_are_named_as_they_are_today_and_those_of_mappings_too():
    words = [
        "experiment=/some folder/with {odd} names",  # is no key, and no text of the grammar
        "env=toy",
        "env.eval.tasks=[a,b]",
        "env.eval={Max_Episode_Steps: 8, video_cfg: {save_video: true}}",
        "rollout_epoch=2",
        "env.*.render_final=true",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an old spelling was warned about when it was composed
        assert overridden_keys(words) == {
            "env",
            "env.eval.tasks",
            "env.eval.max_episode_steps",
            "env.eval.video_cfg.save_video",
            "env.eval.rollout_epoch",
            "env.train.render_final",
            "env.eval.render_final",
        }
    assert overridden_keys([]) == frozenset()


@pytest.mark.parametrize(
    "text", ["a b'c=d ü{e}", "x\\", "a\\'b", "a\\\\'", "a\\b", "..", "[x], {y}"]
)
def test_a_quoted_value_is_the_value(text):
    (override,) = parse_overrides([f"runner.logger.project_name={quote(text)}"])
    assert override.value() == text
