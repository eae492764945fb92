"""Published checkpoints don't say whether they learned from cropped images; their names may."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rlcore_prismatic.folders import Folders
from rlcore_prismatic.settings import PrismaticModelConfig
from rlcore_prismatic.trained import check_crop

from rlcore.config.warning import ConfigWarning
from rlcore.contracts.errors import CheckpointError

WHOLE = PrismaticModelConfig(model_type="token_model")


def alone(folder: Path) -> Folders:
    return Folders(folder, folder, None)


def test_the_name_of_a_published_checkpoint_tells_its_crop(
    tmp_path: Path, recwarn: pytest.WarningsRecorder, refused: Callable[..., Any]
):
    folder = tmp_path / "7b+libero_spatial+lr-5e-4--image_aug"
    folder.mkdir()
    with refused(CheckpointError, "center_crop"):
        check_crop(WHOLE, alone(folder))
    check_crop(replace(WHOLE, center_crop=True), alone(folder))
    assert not recwarn


def test_a_checkpoint_that_does_not_tell_its_crop_is_warned_of(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
):
    with pytest.warns(ConfigWarning, match="center_crop=false"):
        check_crop(WHOLE, alone(tmp_path))
    check_crop(replace(WHOLE, center_crop=True), alone(tmp_path))
    (tmp_path / "config.json").write_text(
        json.dumps({"rlcore": {"model": {"model_type": "token_model", "center_crop": False}}})
    )
    check_crop(WHOLE, alone(tmp_path))  # one of ours says
    assert not recwarn
