"""The plan for SmolVLA at its published size, against the sum of its tensors on the meta device.

Nothing is computed: the tensors have shapes and dtypes, and no bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from rlcore_testing.conformance.fake_env import fake_env
from torch import Tensor

from rlcore.contracts.specs import CameraSpec, PolicySpec
from rlcore.placement.memory import Batch, memory_per_process

pytest.importorskip("rlcore_model_smolvla")

from rlcore_flow.actor import FlowActor
from rlcore_flow.building import adapt, make_actor
from rlcore_model_smolvla.network import PrefixInputs, SmolVLANetwork
from rlcore_model_smolvla.settings import SmolVLAConfig, SmolVLAModelConfig
from rlcore_model_smolvla.sizes import SIZES
from rlcore_model_smolvla.spec import policy_spec

SAMPLES = 8
CAMERAS = (CameraSpec("front", 256, 256), CameraSpec("wrist", 256, 256))
PUBLISHED = SIZES["smolvla"]
STEPS = 10


class FlashAttention(torch.autograd.Function):
    """What flash kernels save for the backward pass: operands and output, and no scores.

    On the meta device torch chooses the kernel that saves the scores, which no machine runs.
    """

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        output = torch.empty_like(queries)
        ctx.save_for_backward(queries, keys, values, output)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        raise NotImplementedError


@pytest.fixture
def flash(monkeypatch: pytest.MonkeyPatch) -> None:
    def attend(queries: Tensor, keys: Tensor, values: Tensor, **_: object) -> Tensor:
        return FlashAttention.apply(queries, keys, values)  # type: ignore[no-any-return]

    monkeypatch.setattr(F, "scaled_dot_product_attention", attend)


def built(trained: str, precision: str) -> tuple[PolicySpec, FlowActor[SmolVLANetwork]]:
    """Return the spec of a policy, and its network with a critic on the meta device."""
    smolvla = SmolVLAConfig(train_expert_only=trained == "expert", num_steps=STEPS)
    config = SmolVLAModelConfig(
        num_action_chunks=10,
        num_images_in_input=2,
        add_value_head=True,
        is_lora=trained == "lora",
        precision=precision,
        smolvla=smolvla,
    )
    spec = policy_spec(config, replace(fake_env(), cameras=CAMERAS))
    with torch.device("meta"):
        network = SmolVLANetwork(PUBLISHED)
        actor = make_actor(
            network, smolvla, critic_hidden=smolvla.critic_hidden, cameras=2, values=1
        )
        adapt(network, smolvla, config)
    return spec, actor


@contextmanager
def saved_by_autograd(actor: FlowActor[SmolVLANetwork]) -> Iterator[dict[int, int]]:
    """Collect the bytes of what is saved for a backward pass, by storage, without parameters."""
    own = {parameter.untyped_storage()._cdata for parameter in actor.parameters()}
    storages: dict[int, torch.UntypedStorage] = {}
    sizes: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            storages[storage._cdata] = storage  # kept, so that no other gets its address
            sizes[storage._cdata] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield sizes


@pytest.mark.quick(2)
@pytest.mark.usefixtures("flash")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("trained", ["lora", "expert", "full"])
def test_a_plan_is_the_sum_of_the_tensors(trained: str, precision: str) -> None:
    spec, actor = built(trained, precision)
    need = memory_per_process("actor", spec, precision, batch=Batch(samples=SAMPLES))
    parameters = list(actor.parameters())
    trainable = [parameter for parameter in parameters if parameter.requires_grad]
    assert spec.parameters == sum(parameter.numel() for parameter in parameters)
    assert spec.trainable_parameters == sum(parameter.numel() for parameter in trainable)
    # norms, adapters and the projections of actions, state and time stay fp32 in bf16
    weights = sum(parameter.nbytes for parameter in parameters)
    assert need.weights == pytest.approx(weights, rel=0.05)
    # gradient and two moments in fp32, and a master copy of what is bf16
    masters = sum(4 * p.numel() for p in trainable if p.dtype == torch.bfloat16)
    state = sum(12 * parameter.numel() for parameter in trainable) + masters
    assert need.state == pytest.approx(state, rel=0.05)
    with torch.device("meta"), saved_by_autograd(actor) as sizes:
        frames = torch.zeros(SAMPLES, 256, 256, 3, dtype=torch.uint8)
        words = torch.zeros(SAMPLES, PUBLISHED.max_token_len, dtype=torch.int64)
        score = actor.recompute(
            PrefixInputs([frames, frames], words, torch.ones_like(words, dtype=torch.bool)),
            torch.zeros(SAMPLES, PUBLISHED.state_dim),
            torch.zeros(SAMPLES, STEPS + 1, PUBLISHED.action_horizon, PUBLISHED.action_dim),
            torch.zeros(SAMPLES, dtype=torch.int64),
            noise_level=0.5,
        )
        total = score.logprobs.sum() + score.values.sum()
    assert total.requires_grad
    assert need.sample * need.samples == pytest.approx(sum(sizes.values()), rel=0.15)
