"""Check that a policy can be trained: parameters, gradients, the supervised loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlcore.terminal.text import abbreviate_list
from rlcore.validation.policy import checked_groups
from rlcore_testing.conformance.base import require, require_array, require_equal, skip_unless
from rlcore_testing.conformance.paper import paper_demonstration
from rlcore_testing.conformance.policy_subject import PolicySubject, as_tensors, keys

LENGTH = 9
FALL = 0.95  # the loss must fall below this fraction of the first one


class ParameterChecks(PolicySubject):
    """Checks of parameter groups and of the gradients that reach them."""

    def test_parameter_groups_are_disjoint_and_cover_what_trains(self) -> None:
        groups = checked_groups(self.policy)
        names = {id(parameter): name for name, parameter in self.policy.named_parameters()}
        grouped = [id(parameter) for group in groups.values() for parameter in group]
        trained = {id(p) for p in self.policy.parameters() if p.requires_grad}
        frozen = sorted(names[p] for p in set(grouped) - trained)
        require(not frozen, f"{abbreviate_list(frozen, 3)} are in a group but don't require "
                            f"gradients",
                hint="leave frozen parameters out")  # fmt: skip
        require(
            bool(groups["policy"]) and bool(groups["value"]) == bool(self.spec.value_dim),
            f"groups have {len(groups['policy'])} policy and {len(groups['value'])} value "
            f"parameters, expected some, and value parameters where V = {self.spec.value_dim} > 0",
            hint="the critic has its own learning rate",
        )

    def test_parameter_counts_are_those_of_the_spec(self) -> None:
        parameters = list(self.policy.parameters())
        counts = {
            "parameters": sum(p.numel() for p in parameters),
            "trainable_parameters": sum(p.numel() for p in parameters if p.requires_grad),
        }
        for name, count in counts.items():
            told = getattr(self.spec, name)
            require(
                told in (0, count),
                f"spec.{name} is {told}, but the policy has {count}",
                hint="memory estimates use it; 0 means that it is not known",
            )

    def test_gradients_reach_every_parameter(self) -> None:
        policy = self.fresh()
        output = self.acted(policy)
        reached = {}
        for name, tensor in self._scores(policy, output).items():
            policy.zero_grad(set_to_none=True)
            tensor.square().sum().backward()
            found = {n: p.grad for n, p in policy.named_parameters() if p.grad is not None}
            reached[name] = {n for n, gradient in found.items() if bool(gradient.any())}
            broken = [n for n, gradient in found.items() if not bool(gradient.isfinite().all())]
            require(not broken, f"the gradient of {name} is not finite at "
                                f"{abbreviate_list(broken, 3)}",
                    hint="look for a std that reaches 0, or a square root at 0")  # fmt: skip
        groups = policy.parameter_groups()
        ids = {g: {id(p) for p in parameters} for g, parameters in groups.items()}
        for group, source in (("policy", "logprobs"), ("value", "values")):
            members = [n for n, p in policy.named_parameters() if id(p) in ids[group]]
            # what policy and critic share may be the critic's alone in effect
            sources = [source] if group == "value" else [*reached]
            seen = set().union(*(reached.get(each, set()) for each in sources))
            missed = [
                n
                for n in members
                if n not in seen and not n.startswith(self.spec.unused_parameters)
            ]
            require(
                not missed,
                f"no gradient of {source} reaches {len(missed)} of {len(members)} parameters of "
                f"group {group!r}: {abbreviate_list(missed, 3)}",
                hint="freeze what does not train, or name it in spec.unused_parameters if the "
                "network is "
                "meant to be so",
            )

    def _scores(self, policy: Any, output: Any) -> dict[str, Tensor]:
        evaluation = self.evaluated(output, policy)
        scores = {"logprobs": evaluation.logprobs}
        if self.spec.value_dim:
            scores["values"] = self.evaluated(output, policy).values
        return scores


class SupervisedChecks(PolicySubject):
    """Checks of learning from demonstrations."""

    def test_supervised_samples_are_those_of_the_frames(self) -> None:
        policy = self._learner()
        demonstration = paper_demonstration(self.env_spec, LENGTH)
        index = [0, len(demonstration.frame_steps) - 1]
        inputs, actions, mask = policy.sft_batch(demonstration, index)
        ahead = demonstration.frame_steps[index][:, None] + np.arange(self.spec.action_horizon)
        require_array("target actions of sft_batch", actions, np.float32,
                      (2, self.spec.action_horizon, self.spec.action_dim))  # fmt: skip
        require_array("mask of sft_batch", mask, bool, ahead.shape)
        require_equal("mask of sft_batch", mask, ahead < LENGTH,
                      hint="true for steps the demonstration has, false past its end")  # fmt: skip
        require_equal(
            "target actions of sft_batch",
            actions,
            demonstration.actions[np.minimum(ahead, LENGTH - 1)],
            hint="from the frame's own step on, the last action repeated past the end",
        )
        known = set(self.inputs)
        require(set(inputs) == known, f"sft_batch gave inputs {sorted(inputs)}, expected "
                f"{sorted(known)} as prepare does", hint="call prepare")  # fmt: skip

    def test_the_supervised_loss_is_one_number_a_sample(self) -> None:
        """It depends on keys alone, and only on the steps that its mask includes."""
        policy = self._learner()
        inputs, actions, mask = self._samples(policy)
        loss = policy.sft_loss(inputs, actions, mask, _keys(mask))
        require(
            loss.shape == mask.shape[:1] and bool(loss.isfinite().all()) and loss.requires_grad,
            f"sft_loss gave shape {list(loss.shape)}, finite: {bool(loss.isfinite().all())}, "
            f"gradients: {loss.requires_grad}; expected {list(mask.shape[:1])}, true, true",
            hint="a loss per sample; the trainer takes the mean",
        )
        again = policy.sft_loss(inputs, actions, mask, _keys(mask))
        require_equal("sft_loss under equal keys", again.detach(), loss.detach(),
                      hint="draw noise from the keys alone")  # fmt: skip
        unmasked = policy.sft_loss(inputs, actions, torch.ones_like(mask), _keys(mask))
        padded = ~mask.all(1)
        skip_unless(bool(padded.any()), "its horizon of one step ends with the demonstration")
        require(
            not bool((unmasked == loss)[padded].any()),
            "sft_loss is the same without its mask, expected steps past the end not to count",
            hint="mean over the steps where the mask is true",
        )

    def test_the_supervised_loss_falls(self) -> None:
        policy = self._learner()
        samples = self._samples(policy)
        optimizer = torch.optim.Adam(policy.parameter_groups()["policy"], lr=self.sft_lr)

        def loss(step: int) -> Tensor:
            mean: Tensor = policy.sft_loss(*samples, _keys(samples[2], step)).mean()
            return mean

        before = float(loss(0).detach())
        for step in range(1, self.sft_steps + 1):
            optimizer.zero_grad()
            loss(step).backward()
            optimizer.step()
        after = float(loss(0).detach())
        fallen = before - after
        require(
            fallen > (1 - FALL) * abs(before),
            f"the supervised loss went from {before:.4g} to {after:.4g} in {self.sft_steps} steps, "
            f"expected it to fall by {1 - FALL:.0%} at least",
            hint="compare targets and predictions by eye; sft_lr and sft_steps of the test class "
            "say how it is trained here",
        )

    def _learner(self) -> Any:
        skip_unless(self.spec.sft_objective is not None, "spec.sft is None")
        policy = self.fresh()
        policy.fit_normalizer([paper_demonstration(self.env_spec, LENGTH, s) for s in range(2)])
        return policy

    def _samples(self, policy: Any) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        demonstration = paper_demonstration(self.env_spec, LENGTH)
        frames = range(len(demonstration.frame_steps))
        inputs, actions, mask = policy.sft_batch(demonstration, frames)
        return as_tensors(inputs), torch.from_numpy(actions), torch.from_numpy(mask)


def _keys(mask: Tensor, step: int = 0) -> Any:
    return keys(range(len(mask)), key=step)
