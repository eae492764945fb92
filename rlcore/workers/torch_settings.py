"""Separate the torch settings of env and policy where they share a process.

These settings are global to the process or thread. An env that changes the thread count, the
default dtype or the gradient mode would change them for the policy too, which would then compute
different results or get no gradients. Reading the settings takes microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from rlcore.contracts.errors import WorkerError


@cache
def _settings() -> tuple[tuple[Any, Any], ...]:
    """Return the getter and the setter of each setting."""
    import torch
    from torch.backends import cudnn

    return (
        (torch.get_num_threads, torch.set_num_threads),
        (torch.get_default_dtype, torch.set_default_dtype),
        (torch.get_default_device, torch.set_default_device),
        (torch.is_grad_enabled, torch.set_grad_enabled),
        (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
        *(
            (partial(torch.is_autocast_enabled, kind), partial(torch.set_autocast_enabled, kind))
            for kind in ("cpu", "cuda")
        ),
        (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
        *(
            (partial(getattr, cudnn, name), partial(setattr, cudnn, name))
            for name in ("benchmark", "deterministic", "allow_tf32")
        ),
        (torch.is_inference_mode_enabled, _refuse_inference),
    )


def _refuse_inference(_: bool) -> None:
    """Raise WorkerError: torch has no setter of the inference mode, so it can't be restored."""
    raise WorkerError(
        "the env has left torch's inference mode enabled, and torch can't disable it from outside",
        hint="use `with torch.inference_mode():` in the env, or a cluster.backend other than local",
    )


@contextmanager
def separate_torch_settings(changed: dict[int, Any]) -> Iterator[None]:
    """Apply an env's settings while it runs, and restore the previous ones afterwards.

    Args:
        changed: the env's changed settings, by the setting's index. They are applied at the start
            and updated at the end, so that the env has its settings again in the next call.

    Raises:
        WorkerError: the env has left torch's inference mode enabled.
    """
    settings = _settings()
    before = [get() for get, _ in settings]
    for index, value in changed.items():
        _, set_value = settings[index]
        set_value(value)
    try:
        yield
    finally:
        after = [get() for get, _ in settings]
        changed.clear()
        changed |= {index: value for index, value in enumerate(after) if value != before[index]}
        for index in changed:
            _, set_value = settings[index]
            set_value(before[index])
