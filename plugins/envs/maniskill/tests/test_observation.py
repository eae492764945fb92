"""The observation that the documents print: the third person's camera, and that of the hand where
the robot has one."""

import pytest
import torch
from maniskill_cases import CAMERA, EnvMaker
from rlcore_rlinf.observation import as_printed

from rlcore.contracts.specs import Episode

pytestmark = pytest.mark.usefixtures("vulkan")


@pytest.mark.long
@pytest.mark.quick(1)
@pytest.mark.parametrize("hand", [False, True], ids=["third person", "and the hand"])
def test_the_documents_observation(make: EnvMaker, hand: bool) -> None:
    with_hand = {"robot": "panda_wristcam", "cameras": [CAMERA, "hand_camera"]} if hand else {}
    env = make(2, 0, image_size=224, **with_hand)
    observation, _ = env.reset(options={"episodes": [Episode(0, 0), Episode(0, 1)]})
    printed = as_printed(observation, env.spec)
    images, wrists, states = printed["images"], printed["wrist_images"], printed["states"]
    assert images.shape == (2, 224, 224, 3) and images.dtype == torch.uint8
    if hand:
        assert wrists is not None
        assert wrists.shape == (2, 1, 224, 224, 3) and wrists.dtype == torch.uint8
        assert (images != wrists[:, 0]).any()
    else:
        assert wrists is None
    assert states.shape == (2, env.spec.state_dim) and states.dtype == torch.float32
    assert printed["task_descriptions"] == 2 * [
        f"What action should the robot take to {env.spec.instructions[0].lower()}?"
    ]
