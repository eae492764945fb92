"""Check a policy's decisions: shapes, dependence on keys alone, and agreement with `evaluate`."""

from __future__ import annotations

import copy

import numpy as np
import torch

from rlcore.contracts.protocols import Observation, PolicyOutput, take_rows
from rlcore.numerics.batch_invariance import check_kernels
from rlcore.validation.policy import checked_evaluation, checked_inputs, checked_output
from rlcore_testing.conformance.base import (
    Doubt,
    require,
    require_equal,
    require_fields,
    skip_unless,
)
from rlcore_testing.conformance.policy_subject import (
    DECIDED,
    ROWS,
    PolicySubject,
    as_tensors,
    keys,
    require_fp32,
    rows_of,
)

LATER = 100_000  # updates after which any annealing is over


class PreparingChecks(PolicySubject):
    """Checks of `prepare`."""

    def test_inputs_are_arrays_by_row(self) -> None:
        checked_inputs(self.spec, ROWS, self.policy.prepare(self.observation()))

    def test_preparing_is_pure_and_by_row(self) -> None:
        observation = self.observation()
        handed = copy.deepcopy(observation)
        whole = self.policy.prepare(handed)
        frames = {f"camera {name!r}": array for name, array in observation["cameras"].items()}
        handed_frames = [*handed["cameras"].values(), handed["states"]]
        before = {**frames, "states": observation["states"]}
        for (name, array), after in zip(before.items(), handed_frames, strict=True):
            hint = "copy an observation before you change it"
            require_equal(f"{name} of the observation after prepare", after, array, hint=hint)
        order = np.array([ROWS - 1, 1])
        part = self.policy.prepare(take_rows(observation, order))
        for name, array in part.items():
            require_equal(
                f"input {name!r} of rows {order.tolist()} prepared alone",
                array,
                whole[name][order],
                hint="a row's inputs must depend on that row alone: pad to a fixed length",
            )


class ActingChecks(PolicySubject):
    """Checks of `act`."""

    def test_decisions_have_their_shapes(self) -> None:
        output = checked_output(self.spec, ROWS, self.acted())
        for name in ("logprobs", "values"):
            require_fp32(f"{name} of act", getattr(output, name))

    def test_acting_keeps_no_gradients(self) -> None:
        output = self.acted()
        tensors = {"logprobs": output.logprobs, "values": output.values, **output.replay}
        tied = sorted(name for name, tensor in tensors.items() if tensor.requires_grad)
        require(not tied, f"act gave {', '.join(tied)} with gradients, expected none",
                hint="decorate act with torch.no_grad()")  # fmt: skip

    def test_a_replay_is_small(self) -> None:
        replay = self.acted().replay
        require(bool(replay), "replay is empty, expected what evaluate needs besides the inputs",
                hint="store what was sampled, e.g. the actions")  # fmt: skip
        for name, tensor in replay.items():
            require(
                tensor.dtype != torch.uint8,
                f"replay[{name!r}] is uint8 {list(tensor.shape)}, expected no pixels",
                hint="images belong to the inputs, which are stored once",
            )

    def test_acting_leaves_its_inputs_alone(self) -> None:
        inputs, before = self.inputs, self.inputs
        self.policy.act(inputs, keys())
        for name, array in inputs.items():
            require_equal(f"input {name!r} after act", array, before[name],
                          hint="the trajectory stores them: copy before you change")  # fmt: skip

    def test_equal_keys_give_equal_decisions(self) -> None:
        """The state of torch's global generator has no influence and is not changed."""
        torch.manual_seed(1)
        state = torch.get_rng_state()
        first = self.acted()
        require(
            torch.equal(torch.get_rng_state(), state),
            "act draws from torch's global generator, expected all randomness from the keys",
            hint='draw with keys.normal("stream", shape) and torch.from_numpy',
        )
        torch.manual_seed(2)
        self._require_equal("decisions under equal keys", self.acted(), first)

    def test_other_keys_explore_otherwise(self) -> None:
        first, second = self.acted(), self.acted(key=1)
        skip_unless(bool((first.logprobs != 0).any()), "it does not explore under these settings")
        require(
            not np.array_equal(first.actions, second.actions),
            "decisions under different keys are equal, expected other noise",
            hint="draw the noise from the keys handed in",
        )

    def test_decisions_depend_on_what_cameras_show(self) -> None:
        skip_unless(bool(self.env_spec.cameras), "the env has no cameras")
        seen = self.observation()
        seen["cameras"] = {name: 255 - frames for name, frames in seen["cameras"].items()}
        self._require_read("every camera shows other pixels", seen)

    def test_decisions_depend_on_the_instruction(self) -> None:
        skip_unless(len(set(self.env_spec.instructions)) > 1, "the env has one instruction")
        seen = self.observation()
        seen["task_descriptions"] = [*seen["task_descriptions"][1:], seen["task_descriptions"][0]]
        self._require_read("rows have each other's instructions", seen)

    def _require_read(self, change: str, seen: Observation) -> None:
        plain, other = self.acted(), self.policy.act(self.policy.prepare(seen), keys())
        if np.array_equal(plain.actions, other.actions) and plain.logprobs.equal(other.logprobs):
            raise Doubt(
                f"actions and log-probs stay the same to the bit though {change}",
                hint="look for an input that prepare drops; if the policy is meant to be blind to "
                "it, leave the check out in its test class, by `= None`",
            )

    def test_a_row_does_not_depend_on_its_batch(self) -> None:
        whole, order = self.acted(), np.array([4, 1, 2])
        part = self.policy.act(rows_of(self.inputs, order), keys(order.tolist()))
        self._require_equal(
            f"decisions of rows {order.tolist()} alone, against all {ROWS} together",
            part,
            _rows(whole, order),
            atol=self.tolerance,
        )

    def test_a_row_does_not_depend_on_its_place_in_a_fixed_batch(self) -> None:
        """Nor on the other rows of the batch.

        Decisions are equal bitwise, which repeatable runs with `rollout.forward_batch` need, if
        this machine's own kernels are independent of the row; otherwise within the tolerance.
        """
        first, second = np.array([0, 1, 2, 3]), np.array([5, 0, 4, 2])
        some, others = (
            self.policy.act(rows_of(self.inputs, rows), keys(rows.tolist()))
            for rows in (first, second)
        )
        machine_moves_rows, _ = check_kernels(len(first))
        shared, before, after = np.intersect1d(first, second, return_indices=True)
        self._require_equal(
            f"decisions of rows {shared.tolist()} in a batch of {len(first)}, beside other rows "
            "and at other places",
            _rows(others, after),
            _rows(some, before),
            atol=self.tolerance if machine_moves_rows else 0.0,
        )

    def test_without_exploration_nothing_is_drawn(self) -> None:
        first = self.acted(deterministic=True)
        require(
            not bool(first.logprobs.any()),
            "log-probs of deterministic decisions are not 0, expected zeros",
            hint="deterministic=True: no exploration, so there is no density",
        )
        self._require_equal(
            "deterministic decisions, made twice", self.acted(deterministic=True), first
        )
        if not self.spec.starts_from_noise:
            require_equal(
                "actions of deterministic decisions under other keys",
                self.acted(key=1, deterministic=True).actions,
                first.actions,
                hint="deterministic=True: take the mode; a policy whose decisions start from "
                "noise says so in its spec: starts_from_noise=True",
            )

    def test_noise_that_is_given_decides(self) -> None:
        skip_unless(bool(self.spec.noise_shape), "it can't be given its noise")
        one, other = (self._started(seed) for seed in (0, 1))
        hint = "noise stands for what would be drawn from the keys; deterministic: all of it"
        require_equal(
            "actions from the same noise under other keys",
            self._started(0, key=1).actions,
            one.actions,
            hint=hint,
        )
        require(
            not np.array_equal(one.actions, other.actions),
            "decisions from different noise are equal, expected other actions",
            hint=hint,
        )

    def _started(self, seed: int, *, key: int = 0) -> PolicyOutput:
        """Return deterministic decisions that start from given initial noise, seeded by `seed`."""
        drawn = np.random.default_rng(seed).standard_normal((ROWS, *self.spec.noise_shape))
        noise = drawn.astype(np.float32)
        output: PolicyOutput = self.policy.act(
            self.inputs, keys(key=key), deterministic=True, noise=noise
        )
        return output

    def _require_equal(
        self, what: str, got: PolicyOutput, expected: PolicyOutput, *, atol: float = 0.0
    ) -> None:
        hint = "a row's decision must follow from its inputs and its key alone"
        require_fields(DECIDED, f"of {what}", got, expected, atol=atol, hint=hint)


class EvaluatingChecks(PolicySubject):
    """Checks of `evaluate` on stored decisions."""

    def test_evaluations_have_their_shapes(self) -> None:
        evaluation = checked_evaluation(self.spec, ROWS, self.evaluated(self.acted()))
        for name in ("logprobs", "values"):
            require_fp32(f"{name} of evaluate", getattr(evaluation, name))

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
            hint="set_progress says how many updates are done: make it a function of that alone",
        )

    def _require_agreement(self, when: str, policy: object) -> None:
        output = self.acted(policy)
        again = self.evaluated(output, policy)
        for name in ("logprobs", "values"):
            require_equal(
                f"{name} of evaluate against act, {when}",
                getattr(again, name).detach(),
                getattr(output, name),
                atol=self.tolerance,
                hint="call one function from both; dropout off, the same noise level, fp32",
            )

    def test_evaluating_rows_apart_gives_the_same(self) -> None:
        output, order = self.acted(), np.array([4, 1, 2])
        whole = self.evaluated(output)
        part = self.policy.evaluate(
            as_tensors(rows_of(self.inputs, order)),
            {name: tensor[torch.from_numpy(order)] for name, tensor in output.replay.items()},
        )
        for name in ("logprobs", "values", "entropy"):
            all_rows = getattr(whole, name).detach()
            require_equal(
                f"{name} of rows {order.tolist()} evaluated alone",
                getattr(part, name).detach(),
                all_rows[order] if len(all_rows) == ROWS else all_rows,
                atol=self.tolerance,
                hint="minibatches mix decisions: no statistics over the batch",
            )

    def test_evaluations_follow_the_weights(self) -> None:
        policy = self.fresh()
        output = self.acted(policy)
        skip_unless(bool((output.logprobs != 0).any()), "it does not explore under these settings")
        self.shaken(policy)
        moved = self.evaluated(output, policy)
        for name in ("logprobs", *(["values"] if self.spec.value_dim else [])):
            change = float((getattr(moved, name).detach() - getattr(output, name)).abs().max())
            require(
                change > self.tolerance,
                f"{name} of evaluate are those of act though the weights have changed",
                hint="recompute them under the current weights; replay holds samples, no results",
            )


def _rows(output: PolicyOutput, rows: np.ndarray) -> PolicyOutput:
    index = torch.from_numpy(rows)
    return PolicyOutput(
        output.actions[rows],
        output.logprobs[index],
        output.values[index],
        {name: tensor[index] for name, tensor in output.replay.items()},
    )
