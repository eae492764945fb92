"""Measure decisions and samples a second, against the same network alone in the same process.

A sample's way through an update has three parts: its inputs go to the device, the network runs
forward and backward, the optimizer steps. "Plain" is the middle one alone, on tensors that lie on
the device already, without log-probs that are checked or a loss that is weighted. The share of the
card's peak is of the operations that torch counts for that forward and backward.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from parts.gpu.device import (
    device,
    fits,
    flops_of,
    on_cuda,
    peak,
    peak_flops,
    reset_peak,
    seconds_of,
)
from parts.gpu.row_process import Report
from parts.gpu.subject import Subject, build, subject_words

BATCHES = (1, 8, 32, 64, 16, 4, 2, 128)
MICRO_BATCHES = (8, 32, 16, 4, 1)
METHOD = "lora"


def acting(report: Report, *, quick: bool, model: str) -> None:
    """Report decisions a second by batch, and ms of a denoising step where there are any."""
    subject = _built(model, quick)
    for rows in BATCHES[:2] if quick else BATCHES:
        _act(report, subject, rows, quick)


def compiled(report: Report, *, quick: bool, model: str) -> None:
    """Report the same of one batch before and after `torch.compile` of the transformer blocks."""
    subject = _built(model, quick)
    rows = 2 if quick else 32
    _act(report, subject, rows, quick, compiled=False)
    for block in subject.policy.blocks():
        block.compile(backend="eager" if quick else "inductor")  # the latter takes minutes on CPUs
    _act(report, subject, rows, quick, compiled=True)


def _act(report: Report, subject: Subject, rows: int, quick: bool, **more: Any) -> None:
    inputs, keys = subject.observed(rows), subject.keys(rows)

    def act() -> None:
        subject.policy.act(inputs, keys)

    reset_peak()
    if not fits(act):
        report(rows=rows, fits=False, **more)
        return
    repeats = 1 if quick else 5
    taken = seconds_of(act, repeats)
    steps = _denoising_steps(subject)
    figures: dict[str, Any] = {"rows": rows, "seconds": taken, "decisions_per_second": rows / taken}
    if steps > 1:  # with one step less of denoising for each step less of time
        flow = subject.policy.actor.flow
        subject.policy.actor.flow = replace(flow, num_steps=1)
        once = seconds_of(act, repeats)
        subject.policy.actor.flow = flow
        figures["denoising_step_ms"] = 1e3 * (taken - once) / (steps - 1)
    report(**figures, **peak(), **more)


def _denoising_steps(subject: Subject) -> int:
    """Return the denoising steps of a decision; 0: the policy writes tokens."""
    if not subject.policy.spec.starts_from_noise:
        return 0
    return int(subject.policy.config.openpi.num_steps)


def update(report: Report, *, quick: bool, model: str) -> None:
    """Report samples a second of an update by micro-batch, against the plain network."""
    subject = _built(model, quick)
    optimizer = subject.optimizer()
    repeats = 1 if quick else 5
    for recomputes in (False, True):
        subject.policy.set_checkpointing(recomputes)
        for samples in (2,) if quick else MICRO_BATCHES:
            stored = subject.stored(samples)
            there = [{n: t.to(device()) for n, t in each.items()} for each in stored]

            def learn(stored: Any = stored) -> None:
                subject.loss(*stored).backward()

            reset_peak()
            if not fits(learn):
                optimizer.zero_grad()
                report(micro_batch=samples, gradient_checkpointing=recomputes, fits=False)
                continue
            flops = flops_of(learn)
            evaluated = seconds_of(learn, repeats)
            plain = seconds_of(_plain(subject, there), repeats)
            step = seconds_of(lambda: _step(subject, optimizer), repeats)
            card = peak_flops()
            optimizer.zero_grad()
            report(
                micro_batch=samples,
                gradient_checkpointing=recomputes,
                fits=True,
                samples_per_second=samples / evaluated,
                seconds=evaluated,
                plain_seconds=plain,
                over_plain=evaluated / plain,
                optimizer_seconds=step,
                flops=flops,
                **({"share_of_peak": flops / evaluated / card} if card else {}),
                **peak(),
            )


def _plain(subject: Subject, stored: list[dict[str, Tensor]]) -> Callable[[], None]:
    """Return a forward and backward of the network alone, on tensors that lie on its device."""
    policy, (inputs, replay) = subject.policy, stored

    def flow() -> None:
        prefix, state, elapsed = ready
        score = policy.actor.recompute(
            prefix,
            state,
            replay["chain"],
            replay["denoise_index"],
            noise_level=policy.config.openpi.noise_level,
            elapsed=elapsed,
        )
        (score.logprobs.sum() + score.values.sum()).backward()

    def tokens() -> None:
        score = policy.actor.score(ready, decision)
        (score.logprobs.sum() + score.values.sum()).backward()

    if policy.spec.starts_from_noise:
        ready = policy.network_inputs(inputs)
        return flow
    ready, decision = policy.actor_inputs(inputs), policy._decision(replay)
    return tokens


def _step(subject: Subject, optimizer: Any) -> None:
    """An optimizer step on gradients of zeros: it takes as long as any."""
    for parameter in subject.policy.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
    optimizer.step()


def optimizer_and_transfers(report: Report, *, quick: bool) -> None:
    """Report AdamW's step as it is and fused, and copies to the device from pinned memory."""
    _optimizers(report, parameters=10_000 if quick else 300_000_000)
    _transfers(report, mib=1 if quick else 256)


def _optimizers(report: Report, parameters: int) -> None:
    """Of so many fp32 numbers in tensors of the size of a transformer's."""
    each = min(parameters, 16 * 2**20)
    for kind in ("foreach", "fused"):
        weights = [
            torch.zeros(each, device=device(), requires_grad=True)
            for _ in range(max(parameters // each, 1))
        ]
        adam = torch.optim.AdamW(weights, **{kind: True})
        for weight in weights:
            weight.grad = torch.zeros_like(weight)
        reset_peak()
        report(
            optimizer=kind,
            numbers=each * len(weights),
            seconds=seconds_of(adam.step, 5),
            **peak(),
        )
        del weights, adam


def _transfers(report: Report, mib: float) -> None:
    count = int(mib * 2**20)
    target = torch.empty(count, dtype=torch.uint8, device=device())
    for pinned in (False, True) if on_cuda() else (False,):
        source = torch.zeros(count, dtype=torch.uint8, pin_memory=pinned)
        there = seconds_of(lambda s=source: target.copy_(s, non_blocking=True), 5)
        back = seconds_of(lambda s=source: s.copy_(target, non_blocking=True), 5)
        report(
            pinned=pinned,
            mib=mib,
            to_device_gib_per_second=mib / 1024 / there,
            to_host_gib_per_second=mib / 1024 / back,
        )


def _built(model: str, quick: bool) -> Subject:
    return build(subject_words(model, METHOD, quick), device())
