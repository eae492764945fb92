"""The observation that the documents print: the camera before the table, and that of the wrist."""

import pytest
import torch
from libero_cases import EnvMaker, needs_libero
from rlcore_rlinf.observation import as_printed

from rlcore.contracts.specs import Episode


@pytest.mark.long
@needs_libero
def test_the_documents_observation(make: EnvMaker) -> None:
    env = make(2, 0, image_size=224)
    observation, _ = env.reset(options={"episodes": [Episode(0, 0), Episode(0, 1)]})
    printed = as_printed(observation, env.spec)
    images, wrists, states = printed["images"], printed["wrist_images"], printed["states"]
    assert images.shape == (2, 224, 224, 3) and images.dtype == torch.uint8
    assert wrists is not None
    assert wrists.shape == (2, 1, 224, 224, 3) and wrists.dtype == torch.uint8
    assert (images != wrists[:, 0]).any()
    assert states.shape == (2, 8) and states.dtype == torch.float32
    assert printed["task_descriptions"] == 2 * [
        "What action should the robot take to pick up the alphabet soup and place it in the basket?"
    ]
