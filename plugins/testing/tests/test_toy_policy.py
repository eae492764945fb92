"""The toy policy: its values per action, and that it computes where its parameters are."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from rlcore_testing.toy_policy import ToyPolicy
from rlcore_testing.toy_settings import ToyEnvConfig, ToyModelConfig, env_spec

from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import CameraSpec

KEYS = RowKeys(((0, 0), (0, 1)))
OBSERVATION = {
    "cameras": {"top": np.zeros((2, 16, 16, 3), dtype=np.uint8)},
    "states": np.zeros((2, 2), dtype=np.float32),
    "task_descriptions": list(env_spec(ToyEnvConfig()).instructions[:2]),
    "elapsed": np.zeros(2, dtype=np.float32),
}


def settings(**keys) -> ToyModelConfig:
    return ToyModelConfig(model_type="toy", num_action_chunks=3, add_value_head=True, **keys)


def test_computes_on_the_device_of_its_parameters():
    """The meta device stands for any other than the host: it refuses to mix with it."""
    policy = ToyPolicy(settings(), env_spec(ToyEnvConfig(max_episode_steps=20)))
    inputs = policy.prepare(OBSERVATION)
    host = {name: torch.from_numpy(array) for name, array in inputs.items()}
    replay = policy.act(inputs, KEYS).replay
    targets, mask = torch.zeros(2, 3, 2), torch.ones(2, 3, dtype=torch.bool)
    policy.to("meta")
    assert policy.evaluate(host, replay).logprobs.is_meta
    assert policy.sft_loss(host, targets, mask, KEYS).is_meta
    # all of it ran there; what meta alone can't do is the copy back to the host
    with pytest.raises(NotImplementedError):
        policy.act(inputs, KEYS)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_acts_on_a_gpu():
    policy = ToyPolicy(settings(), env_spec(ToyEnvConfig(max_episode_steps=20))).cuda()
    out = policy.act(policy.prepare(OBSERVATION), KEYS)
    assert isinstance(out.actions, np.ndarray) and out.values.is_cuda


def test_a_large_image_is_shrunk():
    """Of 127 columns every second one, of 3 lines all, as the spec counts them."""
    spec = replace(env_spec(ToyEnvConfig()), cameras=(CameraSpec("top", 3, 127),))
    policy = ToyPolicy(settings(), spec)
    frames = np.zeros((2, 3, 127, 3), np.uint8)
    frames[:, :, ::2] = 5
    inputs = policy.prepare({**OBSERVATION, "cameras": {"top": frames}})
    assert inputs["image"].shape == (2, 3, 64, 3) and (inputs["image"] == 5).all()
    assert policy.act(inputs, KEYS).actions.shape == (2, 3, 2)
