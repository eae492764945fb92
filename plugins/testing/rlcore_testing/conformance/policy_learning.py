"""Check that a policy can be trained: parameters, gradients, the supervised loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlcore.utils.text import abbreviate_list
from rlcore.validation.faults import array_fault
from rlcore.validation.policy import check_parameter_groups
from rlcore_testing.conformance.base import require_equal, require_valid, skip_unless
from rlcore_testing.conformance.fake_env import fake_demonstration
from rlcore_testing.conformance.policy_subject import PolicySubject, as_tensors, keys

LENGTH = 9
FALL = 0.95  # the loss must fall below this fraction of the first one


class ParameterChecks(PolicySubject):
    """Checks of parameter groups and of the gradients that reach them."""

    def test_parameter_groups_are_disjoint_and_cover_what_trains(self) -> None:
        groups = check_parameter_groups(self.policy)
        grouped = {id(parameter) for group in groups.values() for parameter in group}
        frozen = [
            name
            for name, parameter in self.policy.named_parameters()
            if id(parameter) in grouped and not parameter.requires_grad
        ]
        assert not frozen, (
            f"{abbreviate_list(frozen, 3)} are in a group but don't require gradients"
            "\n  hint: leave frozen parameters out"
        )
        values = self.spec.value_dim
        assert groups["policy"] and bool(groups["value"]) == bool(values), (
            f"groups have {len(groups['policy'])} policy and {len(groups['value'])} value "
            f"parameters, expected some, and value parameters where V = {values} > 0"
            "\n  hint: the critic has its own learning rate"
        )

    def test_parameter_counts_are_those_of_the_spec(self) -> None:
        counts = {"parameters": 0, "trainable_parameters": 0}
        for parameter in self.policy.parameters():
            counts["parameters"] += parameter.numel()
            counts["trainable_parameters"] += parameter.numel() * parameter.requires_grad
        for name, count in counts.items():
            declared = getattr(self.spec, name)
            assert declared in (0, count), (
                f"spec.{name} is {declared}, but the policy has {count}\n  hint: memory estimates "
                "use it; 0 means that it is not known"
            )

    def test_gradients_reach_every_parameter(self) -> None:
        skip_unless(self.spec.has_logprobs, "spec.has_logprobs is false: there is no score")
        policy = self.fresh()
        output = self.acted(policy)
        reached: dict[str, set[str]] = {"logprobs": set(), "values": set()}
        for source in ("logprobs", "values")[: 1 + bool(self.spec.value_dim)]:
            policy.zero_grad(set_to_none=True)
            getattr(self.evaluated(output, policy), source).square().sum().backward()
            for name, parameter in policy.named_parameters():
                if parameter.grad is None:
                    continue
                assert parameter.grad.isfinite().all(), (
                    f"the gradient of {source} is not finite at {name}\n  hint: look for a std "
                    "that reaches 0, or a square root at 0"
                )
                if parameter.grad.any():
                    reached[source].add(name)
        # what policy and critic share may be the critic's alone in effect
        sources = {"policy": reached["logprobs"] | reached["values"], "value": reached["values"]}
        for group, parameters in policy.parameter_groups().items():
            members = {id(parameter) for parameter in parameters}
            names = {name for name, p in policy.named_parameters() if id(p) in members}
            unreached = sorted(names - sources[group])
            missed = [
                name for name in unreached if not name.startswith(self.spec.unused_parameters)
            ]
            assert not missed, (
                f"no gradient reaches {len(missed)} of {len(names)} parameters of group "
                f"{group!r}: {abbreviate_list(missed, 3)}\n  hint: freeze what does not train, or "
                "name it in spec.unused_parameters if the network is meant to be so"
            )


class SupervisedChecks(PolicySubject):
    """Checks of learning from demonstrations."""

    def test_supervised_samples_are_those_of_the_frames(self) -> None:
        policy = self._fitted()
        demonstration = fake_demonstration(self.env_spec, LENGTH)
        frames = [0, len(demonstration.frame_steps) - 1]
        inputs, actions, mask = policy.sft_batch(demonstration, frames)
        horizon = self.spec.action_horizon
        steps = demonstration.frame_steps[frames][:, None] + np.arange(horizon)
        shape = (len(frames), horizon, self.spec.action_dim)
        require_valid("sft_batch", array_fault("actions", actions, np.float32, shape))
        require_valid("sft_batch", array_fault("mask", mask, np.bool_, shape[:2]))
        hint = "true for steps the demonstration has, false past its end"
        require_equal("mask of sft_batch", mask, steps < LENGTH, hint)
        hint = "from the frame's own step on, the last action repeated past the end"
        expected = demonstration.actions[np.minimum(steps, LENGTH - 1)]
        require_equal("target actions of sft_batch", actions, expected, hint)
        assert set(inputs) == set(self.inputs), (
            f"sft_batch gave inputs {sorted(inputs)}, expected {sorted(self.inputs)} as prepare "
            "does\n  hint: call prepare"
        )

    def test_the_supervised_loss_is_one_number_a_sample(self) -> None:
        """It depends on keys alone, and only on the steps that its mask includes."""
        policy = self._fitted()
        inputs, actions, mask = _samples(policy, self.env_spec)
        loss = policy.sft_loss(inputs, actions, mask, _keys(mask))
        finite = bool(loss.isfinite().all())
        assert loss.shape == mask.shape[:1] and finite and loss.requires_grad, (
            f"sft_loss gave shape {list(loss.shape)}, finite: {finite}, gradients: "
            f"{loss.requires_grad}; expected {list(mask.shape[:1])}, true, true"
            "\n  hint: a loss per sample; the trainer takes the mean"
        )
        again = policy.sft_loss(inputs, actions, mask, _keys(mask)).detach()
        hint = "draw noise from the keys alone"
        require_equal("sft_loss under equal keys", again, loss.detach(), hint)
        unmasked = policy.sft_loss(inputs, actions, torch.ones_like(mask), _keys(mask))
        padded = ~mask.all(1)
        skip_unless(bool(padded.any()), "its horizon of one step ends with the demonstration")
        assert not (unmasked == loss)[padded].any(), (
            "sft_loss is the same without its mask, expected steps past the end not to count"
            "\n  hint: mean over the steps where the mask is true"
        )

    def test_the_supervised_loss_falls(self) -> None:
        policy = self._fitted()
        samples = _samples(policy, self.env_spec)
        optimizer = torch.optim.Adam(policy.parameter_groups()["policy"], lr=self.sft_lr)
        losses = []
        for step in [*range(self.sft_steps + 1), 0]:
            optimizer.zero_grad()
            loss = policy.sft_loss(*samples, _keys(samples[2], step)).mean()
            losses.append(float(loss.detach()))
            if step:
                loss.backward()
                optimizer.step()
        before = losses[0]
        after = losses[-1]
        assert before - after > (1 - FALL) * abs(before), (
            f"the supervised loss went from {before:.4g} to {after:.4g} in {self.sft_steps} steps, "
            f"expected it to fall by {1 - FALL:.0%} at least\n  hint: compare targets and "
            "predictions by eye; sft_lr and sft_steps of the test class say how it is trained"
        )

    def _fitted(self) -> Any:
        """Return a new policy whose normalizer is fitted; skip the check if it has no such loss."""
        skip_unless(self.spec.sft_objective is not None, "spec.sft_objective is None")
        policy = self.fresh()
        policy.fit_normalizer([fake_demonstration(self.env_spec, LENGTH, s) for s in range(2)])
        return policy


def _samples(policy: Any, env_spec: Any) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    demonstration = fake_demonstration(env_spec, LENGTH)
    frames = range(len(demonstration.frame_steps))
    inputs, actions, mask = policy.sft_batch(demonstration, frames)
    return as_tensors(inputs), torch.from_numpy(actions), torch.from_numpy(mask)


def _keys(mask: Tensor, step: int = 0) -> Any:
    return keys(range(len(mask)), key=step)
