"""The observation that the documents print: one camera of 480 x 480, and no wrist; the code of its
page."""

import re
from pathlib import Path
from typing import Any

import torch
from metaworld_cases import BUTTON, REACH, EnvMaker
from rlcore_rlinf.observation import as_printed

from rlcore.contracts.specs import Episode


def test_the_documents_observation(make: EnvMaker) -> None:
    env = make(2, 0, tasks=[BUTTON, REACH], image_size=480)
    observation, _ = env.reset(options={"episodes": [Episode(0, 0), Episode(1, 0)]})
    printed = as_printed(observation, env.spec)
    images = printed["images"]
    assert images.shape == (2, 480, 480, 3) and images.dtype == torch.uint8
    assert (images[0] != images[1]).any()
    assert printed["wrist_images"] is None
    assert printed["states"].shape == (2, 4) and printed["states"].dtype == torch.float32
    assert printed["task_descriptions"] == [
        f"What action should the robot take to {sentence}?"
        for sentence in observation["task_descriptions"]
    ]


def test_the_code_of_the_page_runs() -> None:
    page = (Path(__file__).parents[4] / "docs/observation.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    assert "# torch.Size([2, 480, 480, 3])\n" in code
    assert names["printed"]["images"].shape == (2, 480, 480, 3)
