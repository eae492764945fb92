"""Folders that no run can be at."""

from __future__ import annotations

import pytest

from rlcore.checks import places
from rlcore.config.compose import compose

LONG = "/" + "x" * 5000  # longer than a name may be
TOY = ["env=toy", "model=toy", "algorithm=plain"]


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("runner.logger.log_path=/dev/null/x", "runner.logger.log_path must be a folder, got"),
        ("collect.path=/dev/null", "collect.path must be a folder, got '/dev/null'"),
        (f"runner.logger.log_path={LONG}", "runner.logger.log_path must be a folder, got '/xxx"),
        (f"collect.path={LONG}", "collect.path must be a folder, got '/xxx"),
        (f"actor.model.model_path={LONG}", "actor.model.model_path must be a folder, got '/xxx"),
        (f"env.eval.video_cfg.video_base_dir={LONG}", "video_base_dir must be a folder, got '/xxx"),
        ("runner.logger.experiment_name=../x", "must be a name or a path below"),
        ("actor.model.model_path=/no/where", "must be an existing folder, got '/no/where'"),
    ],
)
def test_places_that_no_run_can_be_at(registry, override, sentence):
    config = compose([*TOY, override], registry=registry)
    (said,) = places.violations(config)
    assert sentence in said
