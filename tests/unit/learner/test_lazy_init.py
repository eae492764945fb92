"""Weights that get their numbers later: the same to the bit, and none before."""

from __future__ import annotations

import copy

import torch
from torch import nn

from rlcore.learner.lazy_init import LazyInit


class Net(nn.Module):
    """Draws of several kinds, one over another, scaled, tied and cast."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 4)
        nn.init.normal_(self.first.weight, std=0.02)  # over what Linear drew
        self.second = nn.Linear(4, 4)
        nn.init.trunc_normal_(self.second.weight, std=0.5)  # a draw, and four operations in place
        self.third = nn.Linear(4, 4, bias=False)
        nn.init.zeros_(self.third.weight)
        self.place = nn.Parameter(torch.randn(3, 4) * 0.1 + torch.arange(4))
        self.tied = nn.Linear(8, 4)
        self.tied.weight = self.first.weight
        self.halved = nn.Linear(4, 4)
        self.halved.weight.data = self.halved.weight.data.to(torch.bfloat16)
        self.rounded = nn.Linear(4, 4)
        self.rounded.weight.data = self.rounded.weight.data.to(torch.bfloat16).float()
        self.words = nn.Embedding(4, 3, padding_idx=1)  # whose row is a view, filled with zeros
        self.seen = nn.Parameter(self.second.weight.detach() + 1)  # asks for numbers
        self.spoiled = nn.Linear(4, 4)
        self.before = nn.Parameter(self.spoiled.weight.detach().double())
        nn.init.ones_(self.spoiled.weight)  # after it was cast


def test_lazy_weights_equal_eager_ones():
    torch.manual_seed(3)
    plain = Net()
    after = torch.randn(5)
    torch.manual_seed(3)
    with LazyInit(min_bytes=0) as lazy:
        late = Net()
        last = torch.randn(5)
    assert torch.equal(after, last)
    waiting = [n for n, p in late.named_parameters() if not p.untyped_storage().nbytes()]
    wanted = {"first.weight", "third.weight", "halved.weight", "rounded.weight", "words.weight"}
    assert wanted <= set(waiting)
    assert not {"place", "seen", "second.weight", "before"} & set(waiting)
    assert late.tied.weight is late.first.weight and late.halved.weight.dtype == torch.bfloat16
    state = torch.get_rng_state()
    lazy.fill(late.halved.parameters())
    assert not late.first.weight.untyped_storage().nbytes()  # only what was asked for
    lazy.fill(late.parameters())
    assert torch.equal(torch.get_rng_state(), state)
    for name, parameter in plain.named_parameters():
        found = dict(late.named_parameters())[name]
        assert found.dtype == parameter.dtype and torch.equal(found, parameter), name


def test_buffers_are_filled_later():
    def made():
        net = nn.Module()
        net.register_buffer("table", torch.randn(8, 4).to(torch.bfloat16))
        return net

    torch.manual_seed(3)
    plain = made()
    torch.manual_seed(3)
    with LazyInit(min_bytes=0) as lazy:
        late = made()
    lazy.fill(late.buffers())
    assert torch.equal(late.table, plain.table)


def test_small_tensors_are_made_at_once():
    with LazyInit(min_bytes=65):
        small = nn.Linear(4, 4, bias=False)
        large = nn.Linear(5, 4, bias=False)
    assert small.weight.untyped_storage().nbytes() == 64
    assert not large.weight.untyped_storage().nbytes()


def test_a_mapped_tensor_is_cast_later():
    """As the weights of a file: part of a larger memory, which is not freed."""
    file = torch.arange(40.0)
    kept = copy.deepcopy(file)
    with LazyInit(min_bytes=0) as lazy:
        half = file[8:24].view(4, 4).to(torch.bfloat16)
    assert half.shape == (4, 4) and not half.untyped_storage().nbytes()
    lazy.fill([half])
    assert torch.equal(half, kept[8:24].view(4, 4).bfloat16()) and torch.equal(file, kept)
