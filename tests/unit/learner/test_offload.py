"""Memory that is given up and comes back. The host stands for the accelerator: what leaves it is
really freed there, and waits in other memory of the same machine."""

from __future__ import annotations

import torch
from torch import nn

from rlcore.config.schema import OptimConfig
from rlcore.learner.offload import HostCopies
from rlcore.learner.optim import PolicyOptimizer

HERE = torch.device("cpu")


def held(*tensors: torch.Tensor) -> int:
    """Bytes of memory behind tensors, shared memory once."""
    storages = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}
    return sum(storages.values())


def test_all_bytes_leave_and_come_back_as_they_were():
    plain = torch.arange(6.0)
    half = torch.arange(4).to(torch.bfloat16)
    row = plain.view(2, 3)[1]
    same = plain.detach()
    copies = HostCopies()
    copies.offload([plain, half, row, plain], HERE)
    # 6 numbers of 4 bytes and 4 of 2, each memory once
    assert len(copies) == 32 and held(plain, half, row, same) == 0
    assert plain.shape == (6,) and half.dtype == torch.bfloat16
    copies.offload([plain, half], HERE)  # they are away already
    assert len(copies) == 32
    copies.restore()
    assert len(copies) == 0 and held(plain, half, row, same) == 32
    assert plain.tolist() == [0, 1, 2, 3, 4, 5] and half.tolist() == [0, 1, 2, 3]
    assert row.tolist() == [3, 4, 5] and same.tolist() == plain.tolist()
    plain += 1
    copies.offload([plain], HERE)  # what was copied before is not taken for what is there now
    copies.restore()
    assert row.tolist() == [4, 5, 6]


def test_offloaded_tensors_can_be_read_and_written_on_the_host():
    whole = torch.arange(6.0)
    row = whole.view(2, 3)[1]
    copies = HostCopies()
    assert copies.resident(row) is row
    copies.offload([whole], HERE)
    there = copies.resident(row)
    assert there.tolist() == [3, 4, 5]
    there[0] = 9
    assert copies.resident(whole).tolist() == [0, 1, 2, 9, 4, 5]
    copies.restore()
    assert whole.tolist() == [0, 1, 2, 9, 4, 5]


def test_tensors_elsewhere_or_of_borrowed_memory_stay():
    import numpy as np

    borrowed = torch.from_numpy(np.arange(3.0))
    empty = torch.empty(0)
    copies = HostCopies()
    copies.offload([borrowed, empty], HERE)
    copies.offload([torch.ones(3)], torch.device("cuda"))
    copies.offload([torch.empty(3, device="meta")], HERE)
    assert len(copies) == 0 and borrowed.tolist() == [0, 1, 2]


def test_forgotten_tensors_are_not_restored():
    tensor = torch.ones(2)
    copies = HostCopies()
    copies.offload([tensor], HERE)
    copies.forget()
    copies.restore()
    assert held(tensor) == 0 and len(copies) == 0


def test_an_optimizer_names_gradients_moments_and_master_copies():
    full = nn.Parameter(torch.ones(5))
    half = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    optimizer = PolicyOptimizer({"policy": [full, half], "value": []}, OptimConfig())
    # a master copy of 3 numbers in fp32, and nothing else yet
    assert held(*optimizer.tensors()) == 12
    full.grad = torch.ones(5)
    half.grad = torch.ones(3, dtype=torch.bfloat16)
    assert held(*optimizer.tensors()) == 12 + 20 + 6
    optimizer.step()
    # two moments of 8 numbers and a step count for each of the two, all in fp32
    assert held(*optimizer.tensors()) == 12 + 2 * 32 + 2 * 4
