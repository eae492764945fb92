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

ROUNDING = 1e-6
CLEARLY = 1e-3  # an advantage or an error that has a sign
APPROX_KL = "train/actor/approx_kl"


class LossChecks(AlgorithmSubject):
    """Checks of `loss`."""

    def test_the_loss_is_a_number_with_gradients(self) -> None:
        samples = self.samples()
        present = self.present(samples)
        watched = None if self.algorithm.target_kl is None else APPROX_KL
        answer = self.loss(samples, present)
        loss, metrics = checked_loss(self.name, answer, required=watched)
        require(
            bool(loss.isfinite()) and loss.requires_grad,
            f"loss is {loss.detach()}, gradients: {loss.requires_grad}; expected a finite number "
            "with gradients",
            hint="return the sum of elements times their weights",
        )
        loss.backward()
        for name, gradient in present.gradients().items():
            wanted = name == "logprobs" or self.value_width > 0
            require(
                bool(gradient.isfinite().all()) and bool(gradient.any()) == wanted,
                f"the gradient of {name} is {'0' if not gradient.any() else 'not finite'}, "
                "expected finite numbers that are not all 0",
                hint="nothing on the way from the policy's tensors to the loss may be detached",
            )
        bare = [name for name in metrics if "/" not in name]
        require(not bare, f"metrics {bare} are named without a slash",
                hint="name them by group, e.g. train/actor/entropy")  # fmt: skip

    def test_an_entropy_per_chunk_is_taken(self) -> None:
        samples = self.samples()
        present = self.present(samples)
        per_chunk, _ = self.loss(samples, present, entropy=present.entropy[:, :1, :1])
        require(bool(per_chunk.isfinite()), "the loss of an entropy [B, 1, 1] is not finite",
                hint="see rlcore_policy_gradient.reduce.entropy_at_level")  # fmt: skip

    def test_the_loss_is_a_weighted_sum(self) -> None:
        samples = self.samples()
        present = self.present(samples)
        once, _ = self.loss(samples, present)
        twice, _ = self.loss(samples, present, weights=samples.weights.scaled(2.0, 2.0, 2.0))
        require_equal(
            "the loss under doubled weights",
            twice.detach(),
            2 * once.detach(),
            atol=ROUNDING * max(1.0, abs(float(once.detach()))),
            hint="the weights already average: return sum(weights * elements), without a mean",
        )

    def test_micro_batches_add_up(self) -> None:
        """Their sums equal the loss, the gradient and the metrics of the whole batch."""
        samples = self.samples()
        order = samples.trained.nonzero().squeeze(1)
        whole, parts = self.present(samples), self.present(samples)
        loss, metrics = self.loss(samples, whole, order)
        loss.backward()
        total, added = torch.zeros(()), Metrics()
        shuffled = order[torch.randperm(len(order), generator=torch.Generator().manual_seed(0))]
        for places in shuffled.split(5):
            part, numbers = self.loss(samples, parts, places)
            part.backward()
            total = total + part.detach()
            added.add(numbers)
        hint = "weights are made for the whole minibatch: nothing may be normalised per call"
        require_equal("the loss of micro-batches, added up", total, loss.detach(),
                      atol=ROUNDING * 10, hint=hint)  # fmt: skip
        for name, gradient in parts.gradients().items():
            require_equal(f"the gradient of {name}, in micro-batches", gradient,
                          whole.gradients()[name], atol=ROUNDING, hint=hint)  # fmt: skip
        at_once = Metrics()
        at_once.add(metrics)
        for name, number in at_once.values().items():
            require_equal(f"metric {name}, in micro-batches", _number(added.values()[name]),
                          _number(number), atol=1e-4, hint=hint)  # fmt: skip

    def test_samples_without_weight_have_no_influence(self) -> None:
        samples = self.samples()
        present, rubbish = self.present(samples), self.present(samples)
        dead = ~samples.valid
        no_value = samples.weights.value == 0
        with torch.no_grad():
            rubbish.logprobs[dead] = torch.nan
            rubbish.values[no_value] = torch.nan
        every = torch.arange(len(samples))
        spoilt = replace(
            samples,
            old_logprobs=samples.old_logprobs.masked_fill(dead[..., None], torch.nan),
            old_values=samples.old_values.masked_fill(no_value, torch.nan),
        )
        clean, _ = self.loss(samples, present, every)
        dirty, _ = self.loss(spoilt, rubbish, every)
        hint = "torch.where(weights > 0, x, 0) before anything is computed of x: NaN * 0 is NaN"
        require_equal("the loss with NaN where weights are 0", dirty.detach(), clean.detach(),
                      atol=ROUNDING * 10, hint=hint)  # fmt: skip
        dirty.backward()
        gradients = rubbish.gradients()
        for name, unweighed in (("logprobs", dead), ("values", no_value)):
            require(
                not bool(gradients[name][unweighed].any()),
                f"the gradient of {name} is not 0 where weights are 0",
                hint=hint,
            )

    def test_better_actions_become_likelier(self) -> None:
        samples, gradients = self._pushed()
        advantages = samples.advantages[..., None].expand_as(gradients["logprobs"])
        clear = samples.valid[..., None] & (advantages.abs() > CLEARLY)
        self._require_descent("log-probs", gradients["logprobs"][clear], advantages[clear])

    def test_values_move_towards_returns(self) -> None:
        skip_unless(self.value_width > 0, "it needs no values")
        samples, gradients = self._pushed()
        missing = samples.returns - samples.old_values
        clear = (samples.weights.value > 0) & (missing.abs() > CLEARLY)
        self._require_descent("values", gradients["values"][clear], missing[clear])

    def _pushed(self) -> tuple[Samples, dict[str, Tensor]]:
        """Return samples, and the loss's gradients if the policy has not changed since acting."""
        samples = self.samples()
        present = self.present(samples, drift=0.0)
        self.loss(samples, present)[0].backward()
        return samples, present.gradients()

    def _require_descent(self, what: str, gradient: Tensor, direction: Tensor) -> None:
        """Require that the loss falls as `what` moves in `direction`."""
        wrong = int((gradient * direction >= 0).sum())
        sought = {"log-probs": "their advantage", "values": "return minus value"}[what]
        require(
            wrong == 0,
            f"{wrong} of {len(gradient)} {what} are pushed against the sign of {sought}, or not "
            "at all, where the policy is still the one that acted",
            hint="the loss is minimised: look for a sign",
        )

    def test_a_loss_repeats_and_draws_nothing(self) -> None:
        samples = self.samples()
        present = self.present(samples)
        state = torch.get_rng_state()
        first, second = (self.loss(samples, present)[0].detach() for _ in range(2))
        require_equal("the loss, computed again", second, first, hint="a pure function")
        require(torch.equal(torch.get_rng_state(), state), "loss draws random numbers",
                hint="a pure function of its arguments")  # fmt: skip

    def test_the_reference_matters_where_it_is_needed(self) -> None:
        """If it is not needed, the learner passes None, as all other checks do."""
        skip_unless(self.algorithm.needs.reference_logprobs, "it needs no reference log-probs")
        samples = self.samples()
        present = self.present(samples)
        assert samples.reference_logprobs is not None
        away = replace(samples, reference_logprobs=samples.reference_logprobs - 1.0)
        near, far = (self.loss(each, present)[0].detach() for each in (samples, away))
        require(
            float(near) != float(far),
            "needs.reference_logprobs is true, but the loss does not depend on them",
            hint="they cost a forward pass per sample: ask for them only if the loss uses them",
        )


def _number(x: float) -> float:
    """Return a metric's value; NaN, which the checks treat as equal to itself, if it has none."""
    return x if x == x else 0.0
