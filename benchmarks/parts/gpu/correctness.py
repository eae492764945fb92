"""Compare a network on the card with the same network on the CPU, and with itself.

Row by row: log-probs and values in fp32 (they must agree to :data:`FP32`) and bf16 (stated); the
ratio of the first minibatch after acting, which must be 1; whether a repeated update and one that
goes on from saved state give the same bits; how far log-probs move with the rows of a forward.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from parts.gpu.device import device
from parts.gpu.row_process import Report
from parts.gpu.subject import Subject, build, small

FP32 = 1e-4
"""Largest difference of a log-prob or value in fp32 between CPU and card."""
ROWS = 8
BATCHES = (1, 2, 4, 8)
UPDATES = 2
Stored = tuple[dict[str, Tensor], dict[str, Tensor]]


def compare(report: Report, *, quick: bool, model: str) -> None:
    """Report the comparisons of a model's tiny and middle size.

    Raises:
        AssertionError: fp32 on the card differs by more than :data:`FP32`, or the first ratio of
            a minibatch is not 1 to that accuracy.
    """
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    wrong = []
    for size in ("tiny",) if quick else ("tiny", "middle"):
        wrong += _compared(report, model, size)
        _repeated(report, model, size)
        _by_batch(report, model, size)
    if wrong:
        raise AssertionError("; ".join(wrong))


def _compared(report: Report, model: str, size: str) -> list[str]:
    """CPU against card in both precisions; return what is out of its bounds."""
    wrong = []
    for precision in ("fp32", "bf16"):
        words = small(model, size, f"actor.model.precision={precision}")
        host = build(words, torch.device("cpu"), late=None)
        there = Subject(host.config, host.facts, host.env, copy.deepcopy(host.policy).to(device()))
        stored = host.decided(ROWS)
        with torch.no_grad():
            expected, found = (_scored(one, stored) for one in (host, there))
        apart = {name: _apart(expected[name], found[name]) for name in expected}
        grads = _apart(_gradient(host, stored), _gradient(there, stored))
        norm = float(_gradient(host, stored).norm())
        ratio = _first_ratio(there)
        report(
            size=size,
            precision=precision,
            parameters=host.parameters,
            **{f"{name}_differ": value for name, value in apart.items()},
            gradient_differs=grads,
            gradient_norm=norm,
            first_ratio_differs=ratio,
        )
        if precision == "fp32":
            wrong += [
                f"{model} {size}: {name} in fp32 differ by {value:.2e}, at most {FP32:g} expected"
                for name, value in (*apart.items(), ("first ratios", ratio))
                if not value <= FP32
            ]
    return wrong


def _scored(subject: Subject, stored: Stored) -> dict[str, Tensor]:
    found = subject.policy.evaluate(*stored)
    return {"logprobs": found.logprobs.float().cpu(), "values": found.values.float().cpu()}


def _gradient(subject: Subject, stored: Stored) -> Tensor:
    """Return the gradient of all trained weights as one vector, on the host."""
    subject.policy.zero_grad(set_to_none=True)
    subject.loss(*stored).backward()
    parts = [one.grad for one in subject.policy.parameters() if one.grad is not None]
    found = torch.cat([part.float().flatten().cpu() for part in parts])
    subject.policy.zero_grad(set_to_none=True)
    return found


def _first_ratio(subject: Subject) -> float:
    """Return the largest |ratio - 1| of decisions scored right after they were made."""
    inputs = subject.observed(ROWS)
    output = subject.policy.act(inputs, subject.keys(ROWS))
    with torch.no_grad():
        again = subject.policy.evaluate(
            {name: torch.from_numpy(array) for name, array in inputs.items()}, output.replay
        )
    gap = again.logprobs.float().cpu() - output.logprobs.float().cpu()
    return float((gap.flatten(1).sum(dim=1).exp() - 1).abs().max())


def _repeated(report: Report, model: str, size: str) -> None:
    """Updates made twice, and once more from the state saved between them: equal to the bit?"""
    words = small(model, size)
    first, state = _updated(words, UPDATES)
    second, _ = _updated(words, UPDATES)
    resumed, _ = _updated(words, UPDATES, state)
    report(
        size=size,
        repeat_equal=_equal(first, second),
        resume_equal=_equal(first, resumed),
    )


def _updated(
    words: list[str], updates: int, state: Mapping[str, Any] | None = None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the weights after some updates, and the state before the last of them.

    Args:
        state: from which only the last one is made.
    """
    subject = build(words, device(), late=None)
    stored = subject.decided(ROWS)
    optimizer = subject.optimizer()
    kept: dict[str, Any] = {}
    if state is not None:
        subject.policy.load_state_dict(state["policy"])
        optimizer.load_state_dict(state["optimizer"])
    for number in range(updates) if state is None else (updates - 1,):
        if number == updates - 1:
            weights = {n: t.detach().clone() for n, t in subject.policy.state_dict().items()}
            kept = {"policy": weights, "optimizer": optimizer.state_dict()}
        subject.loss(*stored).backward()
        optimizer.step()
    found = {name: one.detach().cpu() for name, one in subject.policy.named_parameters()}
    return found, kept


def _by_batch(report: Report, model: str, size: str) -> None:
    """How far a row's log-probs move with the number of rows of the forward."""
    for precision in ("fp32", "bf16"):
        words = small(model, size, f"actor.model.precision={precision}")
        subject = build(words, device(), late=None)
        inputs, keys = subject.observed(ROWS), subject.keys(ROWS)
        stored = subject.policy.act(inputs, keys)
        gaps = {}
        for batch in BATCHES:
            parts = []
            for start in range(0, ROWS, batch):
                rows = np.arange(start, start + batch)
                piece = {name: torch.from_numpy(array[rows]) for name, array in inputs.items()}
                replay = {name: tensor[torch.from_numpy(rows).to(tensor.device)]
                          for name, tensor in stored.replay.items()}  # fmt: skip
                with torch.no_grad():
                    parts.append(subject.policy.evaluate(piece, replay).logprobs.float().cpu())
            gap = torch.cat(parts) - stored.logprobs.float().cpu()
            gaps[str(batch)] = float(gap.abs().mean())
        report(size=size, precision=precision, logprob_gap_by_batch=gaps)


def _apart(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max()) if one.numel() else 0.0


def _equal(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)
