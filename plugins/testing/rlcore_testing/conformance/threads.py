"""Run checks of components that compute with tensors in one thread."""

from __future__ import annotations

import torch

from rlcore_testing.conformance.base import Conformance


class OneThread(Conformance):
    """Checks that use one torch thread: for tiny tensors, synchronising threads only costs time."""

    @classmethod
    def setup_class(cls) -> None:
        cls._closing.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)
