"""Measure the device's peak while a network of published size learns and acts, against the plan.

Micro-batches grow until one does not fit. The plan's estimate is what `rlcore plan` counts for a
process that acts and learns, of the same settings, without the driver's context.
"""

from __future__ import annotations

import time
from dataclasses import replace

from parts.gpu.device import GIB, device, fits, peak, reset_peak
from parts.gpu.row_process import Report
from parts.gpu.subject import Subject, build, subject_words
from rlcore.placement.memory import MemoryNeed

MICRO_BATCHES = (1, 2, 4, 8, 16, 32)
ACTING = (1, 8, 64)
ROLE = "rollout+actor"


def peaks(report: Report, *, quick: bool, model: str, method: str) -> None:
    """Report peaks by micro-batch, with recomputed activations and without."""
    sizes = MICRO_BATCHES[:2] if quick else MICRO_BATCHES
    words = subject_words(model, method, quick, f"actor.micro_batch_size={sizes[-1]}")
    began = time.monotonic()
    subject = build(words, device())
    report(
        parameters=subject.parameters,
        trained=subject.trained,
        planned_parameters=subject.facts.counted.parameters,
        planned_trained=subject.facts.counted.trainable_parameters,
        built_seconds=time.monotonic() - began,
        built=peak(),
        planned_weights_gib=subject.facts.memory[ROLE].weights / GIB,
    )
    _acting(report, subject, ACTING[:1] if quick else ACTING)
    stored = subject.stored(sizes[-1])
    optimizer = subject.optimizer()
    for recomputes in (True, False):
        subject.policy.set_checkpointing(recomputes)
        for samples in sizes:
            part = [{n: tensor[:samples] for n, tensor in each.items()} for each in stored]

            def learn(part: list = part) -> None:
                for _ in range(2):  # the second with AdamW's moments there
                    subject.loss(*part).backward()
                    optimizer.step()

            reset_peak()
            there = fits(learn)
            if not there:
                optimizer.zero_grad()
            report(
                micro_batch=samples,
                gradient_checkpointing=recomputes,
                fits=there,
                **(peak() if there else {}),
                planned_gib=planned(subject, samples, recomputes) / GIB,
            )
            if not there:
                break


def _acting(report: Report, subject: Subject, batches: tuple[int, ...]) -> None:
    need = subject.facts.memory[ROLE]
    per_row = need.acting / max(subject.facts.rows_per_forward, 1)
    for rows in batches:
        inputs, keys = subject.observed(rows), subject.keys(rows)
        reset_peak()
        there = fits(lambda inputs=inputs, keys=keys: subject.policy.act(inputs, keys))
        report(
            acting_rows=rows,
            fits=there,
            **(peak() if there else {}),
            planned_gib=(need.weights + per_row * rows) / GIB,
        )


def planned(subject: Subject, samples: int, recomputes: bool) -> int:
    """Return the bytes that the plan counts for learning from so many samples at once."""
    return learning(recomputing(subject, recomputes), samples)


def recomputing(subject: Subject, recomputes: bool) -> MemoryNeed:
    """Return what the plan counts for the process, with recomputed activations or without."""
    fsdp = replace(subject.config.actor.fsdp_config, gradient_checkpointing=recomputes)
    config = replace(subject.config, actor=replace(subject.config.actor, fsdp_config=fsdp))
    return replace(subject.facts, config=config).memory[ROLE]


def learning(need: MemoryNeed, samples: int) -> int:
    """Return its bytes while it learns from so many samples at once."""
    need = replace(need, samples=samples, sft_samples=0)
    return need.weights + need.state + need.learning
