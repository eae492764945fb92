"""What an env sets of torch, for itself alone."""

from __future__ import annotations

from typing import Any

import torch

from rlcore.contracts.errors import WorkerError
from rlcore.workers.torch_settings import separate_torch_settings


def test_autocast_that_an_env_left_on_is_found_by_the_env_alone():
    changed: dict[int, Any] = {}
    with separate_torch_settings(changed):
        torch.set_autocast_enabled("cpu", True)
    assert not torch.is_autocast_enabled("cpu")
    with separate_torch_settings(changed):
        assert torch.is_autocast_enabled("cpu")
    assert not torch.is_autocast_enabled("cpu")


def test_inference_mode_left_on_is_an_error_of_the_env(refused):
    """Nothing that is computed in it can be trained on, and who began it alone can end it."""
    with separate_torch_settings({}), torch.inference_mode():
        pass
    mode = torch.inference_mode()
    try:
        with (
            refused(WorkerError),
            separate_torch_settings({}),
        ):
            mode.__enter__()
    finally:
        mode.__exit__(None, None, None)
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
