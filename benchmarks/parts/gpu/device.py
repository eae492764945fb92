"""The accelerator: what it is, how much of its memory was held, how long work on it takes.

On a machine without one the same calls measure the CPU, so that every row runs there too.
"""

from __future__ import annotations

import gc
import os
import platform
import resource
import time
from collections.abc import Callable
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from statistics import median

import torch

from parts.gpu.row_process import Report

GIB = 2**30
PACKAGES = ("torch", "numpy", "transformers", "peft", "mujoco", "metaworld", "mani_skill", "ray")
PEAKS: tuple[tuple[str, float], ...] = (
    ("B200", 2250.0), ("H200", 989.0), ("H100 PCIe", 756.0), ("H100 NVL", 835.0), ("H100", 989.0),
    ("A100", 312.0), ("L40S", 362.0), ("RTX 6000 Ada", 364.0), ("RTX A6000", 155.0),
    ("RTX 4090", 165.0), ("RTX 3090", 71.0), ("A10", 125.0), ("L4", 121.0),
)  # fmt: skip
"""Dense bf16 TFLOP/s with fp32 sums that the makers state, by a part of the card's name; the first
that fits counts."""


def describe(report: Report, *, quick: bool) -> None:
    """Report what the figures are taken on."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    report(
        device=name_of_device(),
        memory_gib=torch.cuda.get_device_properties(0).total_memory / GIB if on_cuda() else 0,
        cuda=torch.version.cuda,
        peak_tflops=peak_flops() / 1e12 if on_cuda() and peak_flops() else None,
        cores=len(os.sched_getaffinity(0)),
        python=platform.python_version(),
        date=datetime.now(timezone.utc).date().isoformat(),
        packages=found,
    )


def on_cuda() -> bool:
    return torch.cuda.is_available()


def device() -> torch.device:
    """Return where the networks are to be."""
    return torch.device("cuda" if on_cuda() else "cpu")


def name_of_device() -> str:
    """Return the card's name; empty where there is none."""
    return str(torch.cuda.get_device_name(0)) if on_cuda() else ""


def peak_flops() -> float | None:
    """Return the floating-point operations a second that the card's maker states; None: unknown."""
    name = name_of_device()
    return next((1e12 * tera for part, tera in PEAKS if part in name), None)


def synchronize() -> None:
    """Wait until the card has done what it was asked for."""
    if on_cuda():
        torch.cuda.synchronize()


def seconds_of(work: Callable[[], object], repeats: int, warm_up: int = 1) -> float:
    """Return the median seconds of a call, by CUDA events where there is a card."""
    for _ in range(warm_up):
        work()
    taken = []
    for _ in range(repeats):
        synchronize()
        if on_cuda():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            work()
            end.record()
            torch.cuda.synchronize()
            taken.append(begin.elapsed_time(end) / 1e3)
        else:
            clock = time.perf_counter()
            work()
            taken.append(time.perf_counter() - clock)
    return median(taken)


def flops_of(work: Callable[[], object]) -> float:
    """Return the floating-point operations of a call: matrix products, convolutions, attention,
    forward and backward, as torch counts them."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        work()
    return float(counter.get_total_flops())


def reset_peak() -> None:
    """Begin a new measurement of the peak, with nothing cached from before."""
    gc.collect()
    if on_cuda():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def peak() -> dict[str, float]:
    """Return GiB at the peak since :func:`reset_peak`: held by tensors, and by torch's allocator;
    of the whole card, now. On CPUs: this process's main memory since its start."""
    if not on_cuda():
        held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB
        return {"tensors_gib": held, "reserved_gib": held, "card_gib": held}
    free, total = torch.cuda.mem_get_info()
    return {
        "tensors_gib": torch.cuda.max_memory_allocated() / GIB,
        "reserved_gib": torch.cuda.max_memory_reserved() / GIB,
        "card_gib": (total - free) / GIB,
    }


def fits(work: Callable[[], object]) -> bool:
    """Do the work; return False if the card's memory ran out, which is then free again."""
    there = True
    try:
        work()
        synchronize()
    except torch.OutOfMemoryError:  # its traceback holds tensors until this block is left
        there = False
    if not there:
        reset_peak()
    return there
