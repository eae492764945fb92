"""Provide the policy under test, and the observations that checks pass to it."""

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
from rlcore_testing.conformance.base import require_arrays
from rlcore_testing.conformance.fake_env import fake_env, fake_observation
from rlcore_testing.conformance.threads import OneThread

ROWS = 6
SEED = 0
SOME = np.array([4, 1, 2])  # rows that are passed without the others


class PolicySubject(OneThread):
    """Base of the checks of policies: builds policies, and runs them on observations.

    Attributes:
        env_spec: spec of the env that the policy acts in.
        tolerance: absolute tolerance between `act` and `evaluate`, and between a row's results in
            different batches; in fp32.
        shake: std of the noise added to the initial weights, so that heads which start at zero do
            not hide errors.
        sft_steps, sft_lr: number of training steps, and their learning rate, after which the
            supervised loss must have fallen.
    """

    kind = "model"
    env_spec: ClassVar[EnvSpec] = fake_env()
    tolerance: ClassVar[float] = 1e-5
    shake: ClassVar[float] = 0.05
    sft_steps: ClassVar[int] = 20
    sft_lr: ClassVar[float] = 3e-3

    def config(self, **changes: Any) -> Any:
        """Return the settings; `add_value_head` is false if unset, as it is never null in a run."""
        critic = self.settings.get("add_value_head") or False
        return super().config(**{"add_value_head": critic} | changes)

    def make(self, config: Any, env_spec: EnvSpec | None = None) -> Policy:
        """Build the policy as a policy worker does, for :attr:`env_spec` or the given one."""
        target = load_target(self.component().target)
        policy: Policy = target(config, env_spec=env_spec or self.env_spec)
        return policy

    def fresh(self, env_spec: EnvSpec | None = None) -> Any:
        """Build a new policy, in training mode as in a worker, with noise added to its weights.

        Its initial weights are the same in each call.

        The return type is `Any` because the policy is both a :class:`Policy` and a module.
        """
        torch.manual_seed(SEED)
        policy = self.make(self.config(), env_spec)
        assert isinstance(policy, nn.Module), (
            f"the policy is a {type(policy).__name__}, expected a torch.nn.Module"
            "\n  hint: subclass torch.nn.Module"
        )
        self.shaken(policy)
        return policy

    def shaken(self, policy: nn.Module) -> None:
        """Add Gaussian noise of std :attr:`shake` to every parameter."""
        with torch.no_grad():
            for parameter in policy.parameters():
                noise = torch.randn(parameter.shape, dtype=torch.float32)
                parameter.add_((self.shake * noise).to(parameter.dtype))

    @property
    def policy(self) -> Any:
        """A policy that all checks share; checks must not change it."""
        return self.shared("policy", self.fresh)

    @property
    def spec(self) -> PolicySpec:
        spec: PolicySpec = self.policy.spec
        return spec

    def observation(self) -> Observation:
        return fake_observation(self.env_spec, ROWS, SEED)

    @property
    def inputs(self) -> Inputs:
        """A new copy of the prepared inputs of ROWS observations."""
        prepared: Inputs = self.shared("inputs", lambda: self.policy.prepare(self.observation()))
        return rows_of(prepared, np.arange(ROWS))

    def acted(
        self, policy: Any = None, *, key: int = 0, deterministic: bool = False
    ) -> PolicyOutput:
        """Return the decisions of a policy, the shared one by default, on :attr:`inputs`."""
        output: PolicyOutput = (policy or self.policy).act(
            self.inputs, keys(key=key), deterministic=deterministic
        )
        return output

    def acted_alone(self, rows: np.ndarray) -> PolicyOutput:
        """Return the shared policy's decisions for some rows of :attr:`inputs`."""
        output: PolicyOutput = self.policy.act(rows_of(self.inputs, rows), keys(rows.tolist()))
        return output

    def evaluated(self, output: PolicyOutput, policy: Any = None) -> Evaluation:
        """Return a policy's evaluation of decisions on :attr:`inputs`."""
        evaluation: Evaluation = (policy or self.policy).evaluate(
            as_tensors(self.inputs), output.replay
        )
        return evaluation


KEYED = "a row's decision must follow from its inputs and its key alone"


def decisions(output: PolicyOutput) -> dict[str, Any]:
    """Return actions, log-probs and values by name."""
    return {"actions": output.actions, **scores(output)}


def scores(output: PolicyOutput | Evaluation) -> dict[str, Tensor]:
    """Return log-probs and values by name, without gradients."""
    return {"logprobs": output.logprobs.detach(), "values": output.values.detach()}


def require_decisions(
    label: str, got: PolicyOutput, expected: PolicyOutput, hint: str = KEYED
) -> None:
    """Require bitwise equal actions, log-probs and values."""
    require_arrays(f"of {label}", decisions(got), decisions(expected), hint)


def keys(rows: Sequence[int] = range(ROWS), *, key: int = 0) -> RowKeys:
    """Return the keys of the decisions of some rows."""
    return RowKeys(tuple((key, "conformance", row) for row in rows))


def rows_of(inputs: Any, rows: np.ndarray) -> dict[str, Any]:
    """Return the given rows of arrays or tensors by name."""
    return {name: array[rows] for name, array in inputs.items()}


def as_tensors(inputs: Inputs) -> dict[str, Tensor]:
    return {name: torch.from_numpy(np.array(array)) for name, array in inputs.items()}


def require_fp32(call: str, output: PolicyOutput | Evaluation) -> None:
    """Require that log-probs and values are float32 and finite."""
    for name, tensor in scores(output).items():
        assert tensor.dtype == torch.float32 and tensor.isfinite().all(), (
            f"{name} of {call} is {tensor.dtype}, finite: {bool(tensor.isfinite().all())}, "
            "expected torch.float32 and finite numbers\n  hint: log-probs and values are fp32; "
            "look for a std that reaches 0, or a log of 0"
        )
