"""Check a policy's decisions: shapes, dependence on keys alone, and agreement with `evaluate`."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import torch

from rlcore.contracts.protocols import Observation, take_rows
from rlcore.contracts.rng import RowKeys
from rlcore.rollout.batch_invariance import check_kernels
from rlcore.validation.policy import check_evaluation, check_inputs, check_output
from rlcore_testing.conformance.base import (
    require,
    require_arrays,
    require_equal,
    skip_unless,
)
from rlcore_testing.conformance.policy_subject import (
    KEYED,
    ROWS,
    SOME,
    PolicySubject,
    as_tensors,
    decisions,
    keys,
    require_decisions,
    require_fp32,
    rows_of,
    scores,
)
from rlcore_testing.conformance.threads import drawing_nothing

FROZEN = "frozen_encoder returns a copy without gradients; see EncodingPolicy"
LATER = 100_000  # updates after which any annealing is over


class PreparingChecks(PolicySubject):
    """Checks of `prepare`."""

    def test_preparing_is_pure_and_by_row(self) -> None:
        observation = self.observation()
        given = copy.deepcopy(observation)
        whole = check_inputs(self.spec, ROWS, self.policy.prepare(given))
        hint = "copy an observation before you change it"
        label = "of the observation after prepare"
        require_arrays(label, given["cameras"], observation["cameras"], hint)
        require_equal(f"states {label}", given["states"], observation["states"], hint)
        alone = self.policy.prepare(take_rows(observation, SOME))
        hint = "a row's inputs must depend on that row alone: pad to a fixed length"
        label = f"of the inputs of rows {SOME.tolist()} prepared alone"
        require_arrays(label, alone, rows_of(whole, SOME), hint)


class ActingChecks(PolicySubject):
    """Checks of `act`."""

    may_be_intended = (
        "test_decisions_depend_on_what_cameras_show",
        "test_decisions_depend_on_the_instruction",
        "test_actions_scale_with_the_range_of_the_env",
    )

    def test_decisions_have_their_shapes(self) -> None:
        output = check_output(self.spec, ROWS, self.acted())
        require_fp32("act", output)
        tensors = {"logprobs": output.logprobs, "values": output.values, **output.replay}
        tied = sorted(name for name, tensor in tensors.items() if tensor.requires_grad)
        hint = "decorate act with torch.no_grad()"
        require("the list of tensors of act with gradients", tied, [], hint)

    def test_actions_scale_with_the_range_of_the_env(self) -> None:
        """With a range twice as wide, its middle moved by 5, an action a becomes 5 + 2 a."""
        skip_unless(self.config().model_path is None, "its checkpoint scales actions")
        wide = tuple(
            replace(channel, low=5 + 2 * channel.low, high=5 + 2 * channel.high)
            for channel in self.env_spec.actions
        )
        policy = self.fresh(replace(self.env_spec, actions=wide))
        scaled = policy.act(self.inputs, keys()).actions
        label = "of actions in a range twice as wide, its middle moved by 5"
        hint = (
            "act in units of the range, EnvSpec.action_low to action_high, where no checkpoint "
            "has statistics"
        )
        expected = {"actions": 5 + 2 * self.acted().actions}
        require_arrays(label, {"actions": scaled}, expected, hint, atol=1e-3)

    def test_a_replay_is_small(self) -> None:
        replay = self.acted().replay
        assert replay, (
            "replay is empty, expected what evaluate needs besides the inputs"
            "\n  hint: store what was sampled, e.g. the actions"
        )
        pixels = sorted(name for name, tensor in replay.items() if tensor.dtype == torch.uint8)
        hint = "images belong to the inputs, which are stored once"
        require("the list of pixels (uint8) in replay", pixels, [], hint)

    def test_acting_leaves_its_inputs_alone(self) -> None:
        inputs = self.inputs
        self.policy.act(inputs, keys())
        hint = "the trajectory stores them: copy before you change"
        require_arrays("of the inputs after act", inputs, self.inputs, hint)

    def test_equal_keys_give_equal_decisions(self) -> None:
        """The state of torch's global generator has no influence and is not changed."""
        hint = 'draw with keys.normal("stream", shape) and torch.from_numpy'
        torch.manual_seed(1)
        with drawing_nothing("act", hint):
            first = self.acted()
        torch.manual_seed(2)
        require_decisions("decisions under equal keys", self.acted(), first)

    def test_other_keys_explore_otherwise(self) -> None:
        first = self.acted()
        skip_unless(bool(first.logprobs.any()), "it does not explore under these settings")
        assert not np.array_equal(first.actions, self.acted(key=1).actions), (
            "decisions under different keys are equal, expected other noise"
            "\n  hint: draw the noise from the keys handed in"
        )

    def test_decisions_depend_on_what_cameras_show(self) -> None:
        skip_unless(bool(self.env_spec.cameras), "the env has no cameras")
        changed = self.observation()
        changed["cameras"] = {name: 255 - frames for name, frames in changed["cameras"].items()}
        self._require_read("every camera shows other pixels", changed)

    def test_decisions_depend_on_the_instruction(self) -> None:
        skip_unless(len(set(self.env_spec.instructions)) > 1, "the env has one instruction")
        changed = self.observation()
        first, *others = changed["task_descriptions"]
        changed["task_descriptions"] = [*others, first]
        self._require_read("rows have each other's instructions", changed)

    def _require_read(self, change: str, changed: Observation) -> None:
        unchanged = self.acted()
        other = self.policy.act(self.policy.prepare(changed), keys())
        actions_differ = not np.array_equal(unchanged.actions, other.actions)
        assert actions_differ or not unchanged.logprobs.equal(other.logprobs), (
            f"actions and log-probs stay the same to the bit though {change}\n  hint: look for an "
            "input that prepare drops; if the policy is meant to be blind to it, leave the check "
            "out in its test class, by `= None`"
        )

    def test_a_row_does_not_depend_on_its_batch(self) -> None:
        label = f"of decisions of rows {SOME.tolist()} alone, against all {ROWS} together"
        alone = decisions(self.acted_alone(SOME))
        expected = rows_of(decisions(self.acted()), SOME)
        require_arrays(label, alone, expected, KEYED, atol=self.tolerance)

    def test_several_decisions_of_a_row_equal_those_of_repeated_inputs(self) -> None:
        skip_unless(self.spec.has_samples, "it makes one decision for each row")
        every = RowKeys(keys().keys + keys(key=1).keys)
        repeated = rows_of(self.inputs, np.tile(np.arange(ROWS), 2))
        got = decisions(self.policy.act(self.inputs, every))
        expected = decisions(self.policy.act(repeated, every))
        label = "of two decisions for each row, against those for inputs repeated twice"
        hint = "key s B + b is that of decision s of row b; see SamplingPolicy"
        require_arrays(label, got, expected, hint, atol=self.tolerance)

    def test_its_encoder_is_a_frozen_copy_that_encodes_row_by_row(self) -> None:
        size = self.spec.feature_size
        skip_unless(size > 0, "spec.feature_size is 0: it offers no features")
        encoder = self.policy.frozen_encoder()
        features = encoder(as_tensors(self.inputs))
        require("shape of the features", tuple(features.shape), (ROWS, size), FROZEN)
        require("dtype of the features", features.dtype, torch.float32, FROZEN)
        trained = [name for name, tensor in encoder.named_parameters() if tensor.requires_grad]
        require("the list of its parameters that require gradients", trained, [], FROZEN)
        own = {id(tensor) for tensor in self.policy.parameters()}
        shared = [name for name, tensor in encoder.named_parameters() if id(tensor) in own]
        require("the list of its parameters that are the policy's", shared, [], FROZEN)
        alone = encoder(as_tensors(rows_of(self.inputs, SOME)))
        label = f"features of rows {SOME.tolist()} alone, against all {ROWS} together"
        expected = {"features": features[torch.from_numpy(SOME)]}
        require_arrays(label, {"features": alone}, expected, KEYED, atol=self.tolerance)
        assert not torch.equal(features[0], features[1]), (
            "two rows of other inputs have equal features, expected what the policy sees of them"
            "\n  hint: see EncodingPolicy"
        )

    def test_a_row_does_not_depend_on_its_place_in_a_fixed_batch(self) -> None:
        """Nor on the other rows of the batch.

        Decisions are equal bitwise, which repeatable runs with `rollout.forward_batch` need, if
        this machine's own kernels are independent of the row; otherwise within the tolerance.
        """
        first = np.array([0, 1, 2, 3])
        second = np.array([5, 0, 4, 2])
        common, before, after = np.intersect1d(first, second, return_indices=True)
        rows_matter, _ = check_kernels(len(first))
        got, expected = (
            rows_of(decisions(self.acted_alone(batch)), places)
            for batch, places in ((second, after), (first, before))
        )
        label = (
            f"of decisions of rows {common.tolist()} in a batch of {len(first)}, beside other rows "
            "and at other places"
        )
        require_arrays(label, got, expected, KEYED, atol=self.tolerance if rows_matter else 0.0)

    def test_without_exploration_nothing_is_drawn(self) -> None:
        first = self.acted(deterministic=True)
        assert not first.logprobs.any(), (
            "log-probs of deterministic decisions are not 0, expected zeros"
            "\n  hint: deterministic=True: no exploration, so there is no density"
        )
        again = self.acted(deterministic=True)
        require_decisions("deterministic decisions, made twice", again, first)
        if not self.spec.starts_from_noise:
            require_equal(
                "actions of deterministic decisions under other keys",
                self.acted(key=1, deterministic=True).actions,
                first.actions,
                "deterministic=True: take the mode; a policy whose decisions start from noise says "
                "so in its spec: starts_from_noise=True",
            )

    def test_noise_that_is_given_decides(self) -> None:
        skip_unless(bool(self.spec.noise_shape), "it can't be given its noise")
        first, other_key, other_noise = (
            self.policy.act(self.inputs, keys(key=key), deterministic=True, noise=noise).actions
            for key, seed in ((0, 0), (1, 0), (0, 1))
            for noise in [_noise((ROWS, *self.spec.noise_shape), seed)]
        )
        hint = "noise stands for what would be drawn from the keys; deterministic: all of it"
        require_equal("actions from the same noise under other keys", other_key, first, hint)
        assert not np.array_equal(first, other_noise), (
            f"decisions from different noise are equal, expected other actions\n  hint: {hint}"
        )

    def test_samples_with_gradients_equal_decisions(self) -> None:
        skip_unless(self.spec.reparameterized, "spec.reparameterized is false")
        policy = self.fresh()
        actions, logprobs = policy.sample(as_tensors(self.inputs), keys())
        acted = self.acted(policy)
        hint = "draw from the same stream in sample and act, and call one function from both"
        got = {"actions": actions.detach().cpu().numpy(), "logprobs": logprobs.detach()}
        expected = {"actions": acted.actions, "logprobs": acted.logprobs}
        require_arrays("of sample against act", got, expected, hint, atol=self.tolerance)
        actions.sum().backward()
        reached = [p for p in policy.parameter_groups()["policy"] if p.grad is not None]
        assert any(bool(parameter.grad.any()) for parameter in reached), (
            "the gradient of sampled actions reaches no parameter of the policy\n  hint: actions "
            "are mean + std * noise with gradients, not a draw without them"
        )


class EvaluatingChecks(PolicySubject):
    """Checks of `evaluate` on stored decisions."""

    def test_evaluations_have_their_shapes(self) -> None:
        evaluation = check_evaluation(self.spec, ROWS, self.evaluated(self.acted()))
        require_fp32("evaluate", evaluation)

    def test_evaluating_agrees_with_acting(self) -> None:
        """With equal weights, log-probs and values of both agree."""
        self._require_agreement("at equal weights", self.policy)

    def test_progress_changes_acting_and_evaluating_alike(self) -> None:
        policy = self.fresh()
        first = self.acted(policy).actions
        for update in (7, LATER):
            policy.set_progress(update)
            self._require_agreement(f"after set_progress({update})", policy)
        policy.set_progress(0)
        require_equal(
            "actions after set_progress(0), called after later progress",
            self.acted(policy).actions,
            first,
            "set_progress says how many updates are done: make it a function of that alone",
        )

    def _require_agreement(self, when: str, policy: object) -> None:
        output = self.acted(policy)
        evaluated = scores(self.evaluated(output, policy))
        hint = "call one function from both; dropout off, the same noise level, fp32"
        label = f"of evaluate against act, {when}"
        require_arrays(label, evaluated, scores(output), hint, atol=self.tolerance)

    def test_evaluating_rows_apart_gives_the_same(self) -> None:
        output = self.acted()
        inputs = rows_of(self.inputs, SOME)
        part = self.policy.evaluate(as_tensors(inputs), rows_of(output.replay, SOME))
        alone, whole = (
            {**scores(evaluation), "entropy": evaluation.entropy.detach()}
            for evaluation in (part, self.evaluated(output))
        )
        hint = "minibatches mix decisions: no statistics over the batch"
        label = f"of rows {SOME.tolist()} evaluated alone"
        require_arrays(label, alone, rows_of(whole, SOME), hint, atol=self.tolerance)

    def test_evaluations_follow_the_weights(self) -> None:
        policy = self.fresh()
        output = self.acted(policy)
        skip_unless(bool(output.logprobs.any()), "it does not explore under these settings")
        self.shaken(policy)
        evaluated = scores(self.evaluated(output, policy))
        for name, tensor in scores(output).items():
            changes = not tensor.numel() or (evaluated[name] - tensor).abs().max() > self.tolerance
            assert changes, (
                f"{name} of evaluate are those of act though the weights have changed\n  hint: "
                "recompute them under the current weights; replay holds samples, no results"
            )


def _noise(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
