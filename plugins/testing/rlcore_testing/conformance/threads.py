"""Checks of components that compute with tensors run in one thread."""

from __future__ import annotations

import torch

from rlcore_testing.conformance.base import Conformance


class OneThread(Conformance):
    """Threads that wait for each other cost tiny tensors more than they give."""

    @classmethod
    def setup_class(cls) -> None:
        cls._closing.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)
