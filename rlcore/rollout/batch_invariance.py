"""Check batch invariance on this machine: is a row's result, bit for bit, the same in any batch?

A row's result may depend on its position in the batch and on the other rows. One check runs the
kernels alone, over a few shapes that distinguish settings of MKL; it takes a few hundredths of a
second. Another check runs the policy. This module neither selects kernels
(:mod:`rlcore.utils.mkl` does) nor reports results (:mod:`rlcore.utils.kernels` does).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from rlcore.contracts.protocols import Observation, Policy
from rlcore.contracts.rng import RowKeys, generator
from rlcore.contracts.specs import EnvSpec
from rlcore.rollout.decide import padded_rows
from rlcore.utils.mkl import BatchInvariance

MARK = "rounding"  # first part of every random key of this module
ROWS = 4  # batch size of the kernel check if the run has no fixed forward batch
LINEAR = ((39, 2), (39, 64), (64, 1), (64, 3), (64, 7), (128, 3), (256, 64), (512, 16))  # (in, out)
TOKENS = 5
TURNS = 3  # rotations of the rows that are tried
Function = Callable[[Tensor], Tensor]


def check_batch_invariance(
    policy: Policy, spec: EnvSpec, device: str, forward_batch: int | None
) -> BatchInvariance:
    """Check the kernels of this process and, with a fixed forward batch, the policy too."""
    rows = ROWS if forward_batch is None else padded_rows(forward_batch)
    # The digest always covers ROWS rows, so that digests of different runs can be compared.
    _, digest = check_kernels(ROWS, device)
    kernels, _ = check_kernels(rows, device)
    check_policy = forward_batch is not None and rows > 1
    return BatchInvariance(
        rows, kernels, variant_decisions(policy, spec, rows) if check_policy else (), digest
    )


@lru_cache(maxsize=8)
def check_kernels(rows: int, device: str = "cpu") -> tuple[tuple[str, ...], str]:
    """Return the names of the operations that are not batch-invariant, and a digest of all results.

    The digests of two processes are equal if both processes rounded every result the same way.
    """
    variant = []
    digest = hashlib.sha256()
    for name, function, shape in _operations(device):
        batch = _normal((rows, *shape), "one").to(device)
        other_batch = _normal((rows, *shape), "other").to(device)
        result = function(batch)
        digest.update(result.float().cpu().numpy().tobytes())
        if _varies(function, batch, other_batch, result):
            variant.append(name)
    return tuple(variant), digest.hexdigest()[:16]


def variant_decisions(policy: Policy, spec: EnvSpec, rows: int) -> tuple[str, ...]:
    """Return the parts of the policy's decisions that depend on a row's position or on other rows.

    The policy acts on random observations of its env. All random numbers come from fixed keys.

    Args:
        rows: batch size.

    Returns:
        names among "actions", "log-probs" and "values".
    """
    inputs = policy.prepare(random_observation(spec, 2 * rows))
    keys = [(MARK, row) for row in range(2 * rows)]

    def act(chosen: np.ndarray) -> dict[str, np.ndarray]:
        """Return the decisions for the rows with the indices `chosen`, int `[rows]`."""
        output = policy.act(
            {name: array[chosen] for name, array in inputs.items()},
            RowKeys(tuple(keys[row] for row in chosen)),
            deterministic=False,
        )
        tensors = {"log-probs": output.logprobs, "values": output.values}
        return {
            "actions": output.actions,
            **{name: tensor.float().cpu().numpy() for name, tensor in tensors.items()},
        }

    original = np.arange(rows)
    rotated = np.roll(original, 1)
    # reversed, with every odd row replaced by a row of the second half
    mixed = np.where(original % 2, original + rows, original)[::-1]
    reference = act(original)
    rearranged = [(order, act(order)) for order in (rotated, mixed)]
    return tuple(
        name
        for name, array in reference.items()
        if any(
            not np.array_equal(output[name][order < rows], array[order[order < rows]])
            for order, output in rearranged
        )
    )


def _operations(device: str) -> Iterator[tuple[str, Function, tuple[int, ...]]]:
    """Yield (name, function of a batch, shape of a row) of each operation to check."""
    for inner, outer in LINEAR:
        weight = _normal((outer, inner), "weight").to(device)
        bias = _normal((outer,), "bias").to(device)
        yield f"linear {inner} to {outer}", _linear(weight, bias), (inner,)
        yield f"linear {inner} to {outer} of tokens", _linear(weight, bias), (TOKENS, inner)
        half = _linear(weight.bfloat16(), bias.bfloat16())
        yield f"linear {inner} to {outer} in bf16", half, (inner,)
    filters = _normal((16, 3, 3, 3), "filters").to(device)
    yield "convolution", lambda x: functional.conv2d(x, filters, stride=2), (3, 16, 16)
    yield (
        "attention",
        lambda x: functional.scaled_dot_product_attention(*x.split(16, -1)),
        (2, 9, 48),
    )
    yield "layer norm", lambda x: functional.layer_norm(x, x.shape[1:]), (64,)


def _linear(weight: Tensor, bias: Tensor) -> Function:
    return lambda x: functional.linear(x.to(weight.dtype), weight, bias)


def _varies(function: Function, one: Tensor, other: Tensor, result: Tensor) -> bool:
    """Check whether a row's result depends on its position or on the other rows.

    Args:
        one: batch whose result is `result`.
        other: batch of the same shape with other rows.
    """
    rows = len(one)
    shifts = range(1, min(rows, TURNS + 1))
    if any(not torch.equal(function(one.roll(n, 0)), result.roll(n, 0)) for n in shifts):
        return True
    mixed = other.clone()
    mixed[rows // 2] = one[rows // 2]
    return not torch.equal(function(mixed)[rows // 2], result[rows // 2])


def _normal(shape: tuple[int, ...], name: str) -> Tensor:
    """Return standard normal float32 numbers, which depend on the shape and the name alone.

    torch's random number generator is not used.
    """
    values = generator(MARK, name).standard_normal(shape, dtype=np.float32)
    return torch.from_numpy(values)


def random_observation(spec: EnvSpec, rows: int) -> Observation:
    """Return an observation of random pixels and states, with task descriptions of the env.

    It depends on the arguments alone.
    """
    rng = generator(MARK, "observation")
    return {
        "cameras": {
            camera.name: rng.integers(
                0, 256, (rows, camera.height, camera.width, 3), dtype=np.uint8
            )
            for camera in spec.cameras
        },
        "states": rng.uniform(-1, 1, (rows, spec.state_dim)).astype(np.float32),
        "task_descriptions": [spec.instructions[row % len(spec.tasks)] for row in range(rows)],
        "elapsed": rng.uniform(0, 1, rows).astype(np.float32),
    }
