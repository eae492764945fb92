"""Check batch invariance on this machine: are a row's bits independent of its batch and place?

Two checks: the kernels alone, over a few shapes that distinguish settings of MKL (a few hundredths
of a second), and a policy's own decisions. Changes and reports nothing:
:mod:`rlcore.numerics.mkl` chooses the kernels, :mod:`rlcore.numerics.record` reports the result.
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
from rlcore.numerics.mkl import BatchInvariance
from rlcore.rollout.decide import padded_rows

MARK = "rounding"  # first part of all keys that are used here
ROWS = 4  # looked at where no fixed forward batch is asked for
LINEAR = ((39, 2), (39, 64), (64, 1), (64, 3), (64, 7), (128, 3), (256, 64), (512, 16))  # (in, out)
TOKENS = 5
TURNS = 3  # ways in which rows change places
Function = Callable[[Tensor], Tensor]


def check_batch_invariance(
    policy: Policy, spec: EnvSpec, device: str, forward_batch: int | None
) -> BatchInvariance:
    """Check how this process rounds; with a fixed forward batch, its policy too."""
    rows = ROWS if forward_batch is None else padded_rows(forward_batch)
    _, digest = check_kernels(ROWS, device)  # of as many rows in every run, to compare
    kernels, _ = check_kernels(rows, device)
    asked = forward_batch is not None and rows > 1
    return BatchInvariance(
        rows, kernels, variant_decisions(policy, spec, rows) if asked else (), digest
    )


@lru_cache(maxsize=8)
def check_kernels(rows: int, device: str = "cpu") -> tuple[tuple[str, ...], str]:
    """(sums whose bits depend on place or batch, a digest of the results).

    The digests of two processes are equal if they rounded these sums the same way.
    """
    moved, seen = [], hashlib.sha256()
    for name, function, shape in _functions(device):
        one, other = (_numbers((rows, *shape), name).to(device) for name in ("one", "other"))
        result = function(one)
        seen.update(result.float().cpu().numpy().tobytes())
        if _varies(function, one, other, result):
            moved.append(name)
    return tuple(moved), seen.hexdigest()[:16]


def variant_decisions(policy: Policy, spec: EnvSpec, rows: int) -> tuple[str, ...]:
    """Find parts of the policy's decisions that change with a row's place or with other rows.

    It is shown random pixels and states of its env; nothing is drawn but from keys.
    """
    inputs = policy.prepare(random_observation(spec, 2 * rows))
    keys = [(MARK, row) for row in range(2 * rows)]

    def act(chosen: np.ndarray) -> dict[str, np.ndarray]:
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

    first = np.arange(rows)
    turned = np.roll(first, 1)
    mixed = np.where(first % 2, first + rows, first)[::-1]
    whole, others = act(first), [(turned, act(turned)), (mixed, act(mixed))]
    return tuple(
        name
        for name, array in whole.items()
        if any(
            not np.array_equal(output[name][order < rows], array[order[order < rows]])
            for order, output in others
        )
    )


def _functions(device: str) -> Iterator[tuple[str, Function, tuple[int, ...]]]:
    """(name, function of a batch, shape of a row)."""
    for inner, outer in LINEAR:
        weight, bias = (
            _numbers(shape, name).to(device)
            for shape, name in (((outer, inner), "weight"), ((outer,), "bias"))
        )
        yield f"linear {inner} to {outer}", _linear(weight, bias), (inner,)
        yield f"linear {inner} to {outer} of tokens", _linear(weight, bias), (TOKENS, inner)
        half = _linear(weight.bfloat16(), bias.bfloat16())
        yield f"linear {inner} to {outer} in bf16", half, (inner,)
    filters = _numbers((16, 3, 3, 3), "filters").to(device)
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
    rows = len(one)
    turns = range(1, min(rows, TURNS + 1))
    if any(not torch.equal(function(one.roll(n, 0)), result.roll(n, 0)) for n in turns):
        return True
    company = other.clone()
    company[rows // 2] = one[rows // 2]
    return not torch.equal(function(company)[rows // 2], result[rows // 2])


def _numbers(shape: tuple[int, ...], name: str) -> Tensor:
    """Standard normal, the same everywhere, independent of torch's own generator."""
    drawn = generator(MARK, name).standard_normal(shape, dtype=np.float32)
    return torch.from_numpy(drawn)


def random_observation(spec: EnvSpec, rows: int) -> Observation:
    """Random pixels and states of an env, with its own sentences; the same everywhere."""
    rng = generator(MARK, "observation")
    return {
        "cameras": {
            camera.name: rng.integers(
                0, 256, (rows, camera.height, camera.width, 3), dtype=np.uint8
            )
            for camera in spec.cameras
        },
        "states": rng.uniform(-1, 1, (rows, spec.state_dim)).astype(np.float32),
        "task_descriptions": [spec.descriptions[row % len(spec.tasks)] for row in range(rows)],
        "elapsed": rng.uniform(0, 1, rows).astype(np.float32),
    }
