"""Check that a loss is a weighted sum over samples whose descent makes better actions likelier."""

from __future__ import annotations

from dataclasses import replace

import torch
from rlcore_policy_gradient.samples import Samples
from rlcore_policy_gradient.validation import checked_loss
from torch import Tensor

from rlcore.contracts.metric import Metrics
from rlcore_testing.conformance.algorithm_subject import AlgorithmSubject
from rlcore_testing.conformance.base import require, require_equal, skip_unless
from rlcore_testing.conformance.threads import drawing_nothing

ROUNDING = 1e-6
CLEARLY = 1e-3  # an advantage or an error that has a sign
APPROX_KL = "train/actor/approx_kl"


class LossChecks(AlgorithmSubject):
    """Checks of `loss`."""

    def test_the_loss_is_a_number_with_gradients(self) -> None:
        samples = self.samples()
        present = self.present(samples)
        required = None if self.algorithm.target_kl is None else APPROX_KL
        loss, metrics = checked_loss(self.name, self.loss(samples, present), required=required)
        assert loss.isfinite() and loss.requires_grad, (
            f"loss is {loss.detach()}, gradients: {loss.requires_grad}; expected a finite number "
            "with gradients\n  hint: return the sum of elements times their weights"
        )
        loss.backward()
        for name, gradient in present.gradients().items():
            has_gradient = name == "logprobs" or self.value_width > 0
            assert gradient.isfinite().all() and bool(gradient.any()) == has_gradient, (
                f"the gradient of {name} is {'not finite' if gradient.any() else '0'}, expected "
                "finite numbers that are not all 0\n  hint: nothing on the way from the policy's "
                "tensors to the loss may be detached"
            )
        bare = [name for name in metrics if "/" not in name]
        hint = "name them by group, e.g. train/actor/entropy"
        require("the list of metrics named without a slash", bare, [], hint)

    def test_an_entropy_per_chunk_is_taken(self) -> None:
        samples = self.samples()
        present = self.present(samples)
        loss, _ = self.loss(samples, present, entropy=present.entropy[:, :1, :1])
        assert loss.isfinite(), (
            "the loss of an entropy [B, 1, 1] is not finite"
            "\n  hint: see rlcore_policy_gradient.reduce.entropy_at_level"
        )

    def test_the_loss_is_a_weighted_sum(self) -> None:
        samples = self.samples()
        present = self.present(samples)
        once = self.loss(samples, present)[0].detach()
        twice, _ = self.loss(samples, present, weights=samples.weights.scaled(2.0, 2.0, 2.0))
        hint = "the weights already average: return sum(weights * elements), without a mean"
        atol = ROUNDING * max(1.0, abs(float(once)))
        require_equal("the loss under doubled weights", twice.detach(), 2 * once, hint, atol=atol)

    def test_micro_batches_add_up(self) -> None:
        """Their sums equal the loss, the gradient and the metrics of the whole batch."""
        samples = self.samples()
        order = samples.trained.nonzero().squeeze(1)
        order = order[torch.randperm(len(order), generator=torch.Generator().manual_seed(0))]
        whole, parts = (self._summed(samples, order, size) for size in (len(order), 5))
        hint = "weights are made for the whole minibatch: nothing may be normalised per call"
        for name, (value, atol) in whole.items():
            label = f"{name} of micro-batches, added up"
            require_equal(label, parts[name][0], value, hint, atol=atol)

    def _summed(
        self, samples: Samples, order: Tensor, size: int
    ) -> dict[str, tuple[Tensor | float, float]]:
        """Return loss, gradients and metrics, summed over micro-batches of a size.

        Each value is paired with its tolerance. A metric without a value is NaN.
        """
        present = self.present(samples)
        total = torch.zeros(())
        metrics = Metrics()
        for places in order.split(size):
            loss, measured = self.loss(samples, present, places)
            loss.backward()
            total = total + loss.detach()
            metrics.add(measured)
        return {
            "the loss": (total, ROUNDING * 10),
            **{f"the gradient of {n}": (g, ROUNDING) for n, g in present.gradients().items()},
            **{f"metric {name}": (number, 1e-4) for name, number in metrics.values().items()},
        }

    def test_samples_without_weight_have_no_influence(self) -> None:
        samples = self.samples()
        invalid = ~samples.valid
        unweighed = samples.weights.value == 0
        spoilt = replace(
            samples,
            old_logprobs=samples.old_logprobs.masked_fill(invalid[..., None], torch.nan),
            old_values=samples.old_values.masked_fill(unweighed, torch.nan),
        )
        clean = self.present(samples)
        rubbish = self.present(samples)
        with torch.no_grad():
            rubbish.logprobs[invalid] = torch.nan
            rubbish.values[unweighed] = torch.nan
        every = torch.arange(len(samples))
        expected, _ = self.loss(samples, clean, every)
        loss, _ = self.loss(spoilt, rubbish, every)
        hint = "torch.where(weights > 0, x, 0) before anything is computed of x: NaN * 0 is NaN"
        label = "the loss with NaN where weights are 0"
        require_equal(label, loss.detach(), expected.detach(), hint, atol=ROUNDING * 10)
        loss.backward()
        gradients = rubbish.gradients()
        for name, places in (("logprobs", invalid), ("values", unweighed)):
            influences = bool(gradients[name][places].any())
            require(f"whether {name} without weight have a gradient", influences, False, hint)

    def test_better_actions_become_likelier(self) -> None:
        samples = self.samples()
        advantages = samples.advantages[..., None].expand_as(samples.old_logprobs)
        advantages = advantages.where(samples.valid[..., None], 0.0)
        self._require_descent("logprobs", samples, advantages, "their advantage")

    def test_values_move_towards_returns(self) -> None:
        skip_unless(self.value_width > 0, "it needs no values")
        samples = self.samples()
        missing = (samples.returns - samples.old_values).where(samples.weights.value > 0, 0.0)
        self._require_descent("values", samples, missing, "return minus value")

    def _require_descent(self, name: str, samples: Samples, direction: Tensor, reason: str) -> None:
        """Require that the loss falls as a tensor moves in the given direction.

        The policy is still the one that acted.
        """
        present = self.present(samples, drift=0.0)
        self.loss(samples, present)[0].backward()
        clear = direction.abs() > CLEARLY
        wrong = int((present.gradients()[name] * direction >= 0)[clear].sum())
        assert not wrong, (
            f"{wrong} of {int(clear.sum())} {name} are pushed against the sign of {reason}, or not "
            "at all, where the policy is still the one that acted\n  hint: the loss is minimised: "
            "look for a sign"
        )

    def test_a_loss_repeats_and_draws_nothing(self) -> None:
        samples = self.samples()
        present = self.present(samples)
        hint = "a pure function of its arguments"
        with drawing_nothing("loss", hint):
            first, second = (self.loss(samples, present)[0].detach() for _ in range(2))
        require_equal("the loss, computed again", second, first, hint)

    def test_the_reference_matters_where_it_is_needed(self) -> None:
        """If it is not needed, the learner passes None, as all other checks do."""
        skip_unless(self.algorithm.needs.reference_logprobs, "it needs no reference log-probs")
        samples = self.samples()
        present = self.present(samples)
        away = replace(samples, reference_logprobs=samples.old_logprobs - 1.0)
        near, far = (float(self.loss(batch, present)[0].detach()) for batch in (samples, away))
        assert near != far, (
            "needs.reference_logprobs is true, but the loss does not depend on them\n  hint: they "
            "cost a forward pass per sample: ask for them only if the loss uses them"
        )
