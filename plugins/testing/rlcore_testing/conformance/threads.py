"""Provide the base of checks of components that compute with torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from rlcore_testing.conformance.base import Conformance


class OneThread(Conformance):
    """Checks that use one torch thread: for tiny tensors, synchronising threads only costs time."""

    @classmethod
    def setup_class(cls) -> None:
        cls._closing.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)


@contextmanager
def drawing_nothing(call: str, hint: str) -> Iterator[None]:
    """Require that nothing draws from torch's global generator within the context.

    Args:
        call: what is called there, for the message.
    """
    state = torch.get_rng_state()
    yield
    assert torch.equal(torch.get_rng_state(), state), (
        f"{call} draws from torch's global generator, expected it to stay as it is\n  hint: {hint}"
    )
