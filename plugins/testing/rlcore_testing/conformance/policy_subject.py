"""The policy under test, and what the checks show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from rlcore.contracts.protocols import Evaluation, Inputs, Observation, Policy, PolicyOutput
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import EnvSpec, PolicySpec
from rlcore.plugins.import_target import load_target
from rlcore_testing.conformance.base import require
from rlcore_testing.conformance.paper import paper_env, paper_observation
from rlcore_testing.conformance.threads import OneThread

ROWS = 6
SEED = 0
DECIDED = ("actions", "logprobs", "values")


class PolicySubject(OneThread):
    """Makes policies, shows them observations and compares what they say.

    Attributes:
        env_spec: facts of the env it acts in.
        tolerance: to which `act` and `evaluate`, and a row in different batches, agree; in fp32.
        shake: std of the noise put on the initial weights, so that heads which start at zero
            hide nothing.
        sft_steps, sft_lr: training steps after which the supervised loss must have fallen.
    """

    kind = "model"
    env_spec: ClassVar[EnvSpec] = paper_env()
    tolerance: ClassVar[float] = 1e-5
    shake: ClassVar[float] = 0.05
    sft_steps: ClassVar[int] = 20
    sft_lr: ClassVar[float] = 3e-3

    def config(self, **changes: Any) -> Any:
        """Its settings, with no critic unless one is asked for: in a run this is never null."""
        critic = self.settings.get("add_value_head") or False
        return super().config(**{"add_value_head": critic} | changes)

    def make(self, config: Any) -> Policy:
        """The policy as a policy worker makes it."""
        policy: Policy = load_target(self.component().target)(config, env_spec=self.env_spec)
        return policy

    def fresh(self, *, seed: int = SEED, **changes: Any) -> Any:
        """A policy of its own, in training mode as a worker holds it, with weights off their
        start. Typed loosely: it is both a :class:`Policy` and a module."""
        torch.manual_seed(seed)
        policy = self.make(self.config(**changes))
        assert isinstance(policy, nn.Module), "a policy is a torch.nn.Module"
        self.shaken(policy)
        return policy

    def shaken(self, policy: nn.Module) -> None:
        """Move every floating-point parameter a little."""
        with torch.no_grad():
            for parameter in policy.parameters():
                noise = torch.randn(parameter.shape, dtype=torch.float32)
                parameter.add_((self.shake * noise).to(parameter.dtype))

    @property
    def policy(self) -> Any:
        """A policy that all checks share; none may change it."""
        return self.shared("policy", self.fresh)

    @property
    def spec(self) -> PolicySpec:
        spec: PolicySpec = self.policy.spec
        return spec

    def observation(self, rows: int = ROWS, *, seed: int = SEED) -> Observation:
        return paper_observation(self.env_spec, rows, seed)

    @property
    def inputs(self) -> Inputs:
        """Prepared inputs of ROWS observations; a fresh copy."""
        prepared: Inputs = self.shared("inputs", lambda: self.policy.prepare(self.observation()))
        return rows_of(prepared, np.arange(ROWS))

    def acted(
        self, policy: Any = None, *, key: int = 0, deterministic: bool = False
    ) -> PolicyOutput:
        """Its decisions on :attr:`inputs`."""
        policy = policy or self.policy
        output: PolicyOutput = policy.act(self.inputs, keys(key=key), deterministic=deterministic)
        return output

    def evaluated(self, output: PolicyOutput, policy: Any = None) -> Evaluation:
        """Its evaluation of decisions on :attr:`inputs`."""
        policy = policy or self.policy
        evaluation: Evaluation = policy.evaluate(as_tensors(self.inputs), output.replay)
        return evaluation


def keys(rows: Sequence[int] = range(ROWS), *, key: int = 0) -> RowKeys:
    """Keys of the given rows' decisions."""
    return RowKeys(tuple((key, "conformance", row) for row in rows))


def rows_of(inputs: Inputs, rows: np.ndarray) -> Inputs:
    return {name: array[rows] for name, array in inputs.items()}


def as_tensors(inputs: Inputs) -> dict[str, Tensor]:
    return {name: torch.from_numpy(np.array(array)) for name, array in inputs.items()}


def require_fp32(what: str, tensor: Tensor) -> None:
    """Require finite float32."""
    require(
        tensor.dtype == torch.float32 and bool(tensor.isfinite().all()),
        f"{what} is {tensor.dtype}, finite: {bool(tensor.isfinite().all())}, expected "
        "torch.float32 and finite numbers",
        hint="log-probs and values are fp32; look for a std that reaches 0, or a log of 0",
    )
