"""Checks of batch invariance find rows that depend on their batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from rlcore_testing.conformance.fake_env import fake_env
from torch import nn
from torch.nn import functional

from rlcore.contracts.protocols import PolicyOutput
from rlcore.rollout import batch_invariance
from rlcore.rollout.batch_invariance import check_kernels, variant_decisions

SPEC = fake_env(state=3, action=2, cameras=0)


class Policy(nn.Module):
    """Act by the states, with each row's action shifted by `shift(states)` of the whole batch."""

    def __init__(self, shift):
        super().__init__()
        self.shift = shift
        self.asked = []

    def prepare(self, observation):
        return {"states": observation["states"]}

    def act(self, inputs, keys, *, deterministic):
        self.asked.append(len(keys))
        states = torch.from_numpy(inputs["states"])
        noise = torch.from_numpy(keys.normal("noise", (1, 2)))
        actions = states[:, None, :2] + noise + self.shift(states)[:, None, None]
        return PolicyOutput(actions.numpy(), torch.zeros(len(keys), 1, 2), states[:, :1], {})


@pytest.mark.parametrize(
    ("shift", "moved"),
    [
        (lambda states: torch.zeros(len(states)), ()),
        (lambda states: 1e-6 * torch.arange(len(states)), ("actions",)),  # its place
        (lambda states: 1e-6 * states.sum() * torch.ones(len(states)), ("actions",)),  # company
        (lambda states: 1e-6 * (torch.arange(len(states)) == 3), ("actions",)),  # one place only
    ],
    ids=["none", "place", "company", "last"],
)
def test_decisions_that_depend_on_the_batch_are_found(shift, moved):
    policy = Policy(shift)
    assert variant_decisions(policy, SPEC, 4) == moved
    assert set(policy.asked) == {4}


def test_the_check_draws_nothing_from_torch():
    torch.manual_seed(1)
    state = torch.get_rng_state()
    check_kernels.__wrapped__(4)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("rows", [2, 4, 16])
def test_kernels_that_move_rows_are_named(monkeypatch, rows):
    """Seen with a sum that starts at another entry in each row, as blocked kernels do."""

    def turned(x):
        ordered = [row.roll(7 * place).numpy() for place, row in enumerate(x)]
        return torch.tensor([np.cumsum(row, dtype=np.float32)[-1] for row in ordered])

    def layer_norm(x):
        return functional.layer_norm(x, (64,))

    operations = [("turned", turned, (64,)), ("layer norm", layer_norm, (64,))]
    monkeypatch.setattr(batch_invariance, "_operations", lambda device: iter(operations))
    moved, digest = check_kernels.__wrapped__(rows)
    assert moved == ("turned",)
    assert check_kernels.__wrapped__(rows) == (moved, digest)  # the same numbers each time


def test_the_digest_depends_on_the_rounding(monkeypatch):
    def digest(factor: float) -> str:
        double = [("double", lambda x: x * factor, (8,))]
        monkeypatch.setattr(batch_invariance, "_operations", lambda device: iter(double))
        found: str = check_kernels.__wrapped__(4)[1]
        return found

    assert digest(2.0) == digest(2.0) != digest(float(np.nextafter(np.float32(2), np.float32(3))))
