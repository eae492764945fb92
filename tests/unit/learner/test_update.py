"""The learner: its samples, accumulated gradients and metrics."""

import copy
import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rlcore_policy_gradient.reduce import at_level, batch_weights, valid_at_level
from rlcore_policy_gradient.samples import make_samples, minibatches
from rlcore_tools.update_warnings import nothing_learned

from rlcore.config.schema import AlgorithmConfig
from rlcore.contracts import metric
from rlcore.contracts.errors import AlgorithmError, ConfigError, TrainingError
from rlcore.contracts.rng import generator
from rlcore.contracts.specs import AlgorithmNeeds
from rlcore.learner.optim import PolicyOptimizer, StepReport
from rlcore.validation.faults import require_component

ONE_BATCH = {"global_batch_size": 10_000, "micro_batch_size": 10_000}
LEVELS = ("token_level", "action_level", "chunk_level")
AGGREGATIONS = ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean")


@pytest.fixture
def caught(monkeypatch):
    """Gradients of each optimizer step, which is not carried out: `[(policy, value), ...]`."""
    steps = []

    def step(optimizer):
        groups = [optimizer.parameters(name) for name in ("policy", "value")]
        steps.append([[None if p.grad is None else p.grad.clone() for p in g] for g in groups])
        optimizer.zero_grad()
        return StepReport({"policy": 1.0}, True)

    monkeypatch.setattr(PolicyOptimizer, "step", step)
    return steps


def masked_gradient(bench, trajectory, config, places=None):
    """The gradient by the book: evaluate every place of the minibatch, executed or not, mask what
    is invalid, weigh, divide by the weights' sum, for the policy and for the values."""
    advantages = bench.algorithm.advantages(trajectory)
    T, N, _, entries = trajectory.shape
    places = torch.arange(T * N) if places is None else places
    rows = trajectory.sample_index.flatten()[places].clamp(min=0)  # any input where there is none
    new = bench.policy.evaluate(
        {name: x[rows] for name, x in trajectory.inputs.items()},
        {name: x[rows] for name, x in trajectory.replay.items()},
    )
    valid = trajectory.valid.flatten(0, 1)[places]

    def weights(elements):
        whole = batch_weights(elements, trajectory.episode, config["loss_agg_func"])
        part = whole.flatten(0, 1)[places]
        return part * whole.sum() / part.sum()

    level = config["logprob_type"]
    w = weights(valid_at_level(trajectory.valid, entries, level))
    old = trajectory.logprobs.flatten(0, 1)[places]
    ratio = (at_level(new.logprobs, valid, level) - at_level(old, valid, level)).exp()
    a = advantages.advantages.flatten(0, 1)[places].unsqueeze(-1)
    policy = (torch.maximum(-a * ratio, -a * ratio.clamp(0.8, 1.2)) * w).sum()
    width = trajectory.values.shape[-1]
    counted = trajectory.valid if width > 1 else trajectory.valid.any(-1, keepdim=True)
    v = weights(counted.unsqueeze(-1)).squeeze(-1)
    old_v = trajectory.values.flatten(0, 1)[places]
    target = advantages.returns.flatten(0, 1)[places]
    clipped = old_v + (new.values - old_v).clamp(-0.2, 0.2)

    def huber(e):
        return torch.where(e.abs() < 1, 0.5 * e**2, e.abs() - 0.5)

    value = (torch.maximum(huber(target - new.values), huber(target - clipped)) * v).sum()
    h = at_level(new.entropy.expand_as(new.logprobs), valid, config["entropy_type"])
    e = weights(valid_at_level(trajectory.valid, entries, config["entropy_type"]))
    loss = policy + value - config["entropy_bonus"] * (h * e).sum()
    groups = bench.policy.parameter_groups()
    gradient = torch.autograd.grad(loss, [*groups["policy"], *groups["value"]])
    return float(loss.detach()), gradient


@pytest.mark.parametrize(
    "level, aggregation, auto_reset, width",
    [
        *itertools.product(LEVELS, AGGREGATIONS, (False, True), (1,)),
        *itertools.product(LEVELS[:2], AGGREGATIONS, (True,), (3,)),
    ],
)
def test_dropping_equals_masking(bench, acted, caught, level, aggregation, auto_reset, width):
    """Minibatches of dropped samples, cut further into micro-batches, against masked ones."""
    settings = {
        "logprob_type": level,
        "loss_agg_func": aggregation,
        "entropy_type": "action_level",
        "entropy_bonus": 0.01,
        "reward_type": "action_level" if width > 1 else "chunk_level",
    }
    made = bench(
        actor={"global_batch_size": 16, "micro_batch_size": 5}, value_width=width, **settings
    )
    trajectory = acted(made.policy, chunks=8, columns=8, auto_reset=auto_reset, seed=2)
    trajectory.valid[:, 3] = False  # a filtered column
    metrics = made.learner.update(trajectory, update=4)
    assert max(made.policy.evaluated) <= 5
    assert sum(made.policy.evaluated) == int(trajectory.valid.any(-1).sum()) < 64
    # the same permutation, cut the same way, but nothing dropped
    order = torch.from_numpy(generator(0, "shuffle", 4, 0).permutation(64))
    losses = []
    assert len(caught) == 4
    for places, (policy, value) in zip(order.split(16), caught, strict=True):
        loss, expected = masked_gradient(made, trajectory, settings, places)
        losses.append(loss)
        for mine, theirs in zip([*policy, *value], expected, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)
    assert metrics["train/actor/total_loss"] == pytest.approx(np.mean(losses), rel=1e-4, abs=1e-6)


def test_accumulation_equals_one_big_batch(bench, acted):
    results = []
    for micro in (4, 10_000):
        made = bench(
            actor={"global_batch_size": 32, "micro_batch_size": micro},
            update_epoch=2,
            optim={"lr": 1e-2, "value_lr": 1e-2},
        )
        trajectory = acted(made.policy, chunks=8, columns=8)
        metrics = made.learner.update(trajectory, 0)
        results.append((metrics, made.policy.state_dict()))
    (numbers, weights), (others, more) = results
    for name in weights:
        torch.testing.assert_close(weights[name], more[name], rtol=1e-4, atol=1e-6)
    assert numbers == pytest.approx(others, rel=1e-3, abs=1e-6)


def test_it_repeats_bit_for_bit_and_depends_on_the_seed(bench, acted):
    def run(seed):
        made = bench(
            actor={"global_batch_size": 16, "micro_batch_size": 16},
            seed=seed,
            update_epoch=3,
            optim={"lr": 1e-2},
        )
        made.learner.update(acted(made.policy, chunks=8, columns=8), 0)
        return made.policy.mean.weight.detach()

    assert torch.equal(run(0), run(0))
    assert not torch.equal(run(0), run(1))


def test_columns_are_put_in_canonical_order(bench, acted):
    """The same episodes in another order of columns give the same update, bit for bit."""

    def run(order):
        made = bench(actor={"global_batch_size": 16, "micro_batch_size": 16}, optim={"lr": 1e-2})
        trajectory = acted(made.policy, chunks=8, columns=8)
        for name, array in vars(trajectory).items():
            if name not in ("inputs", "replay"):
                setattr(trajectory, name, array[:, order])
        made.learner.update(trajectory, 0)
        return made.policy.mean.weight.detach()

    assert torch.equal(run(list(range(8))), run([5, 2, 7, 0, 1, 6, 3, 4]))


def test_learning_improves_what_it_should(bench, acted):
    """Many small steps on one batch: likelier good actions, better values."""
    made = bench(
        actor=ONE_BATCH,
        optim={"lr": 3e-3, "value_lr": 3e-2, "adam_eps": 1e-5},
        update_epoch=60,
        normalize_advantages=True,
    )
    trajectory = acted(made.policy, gap=0.0, chunks=8, columns=16)
    metrics = made.learner.update(trajectory, 0)
    assert metrics["train/actor/policy_loss"] < -0.02  # 0 at equal weights, as mean A is 0
    assert metrics["train/actor/optimizer_steps"] == 60
    again = made.learner.update(trajectory, 1)
    assert again["train/critic/value_loss"] < metrics["train/critic/value_loss"]


def test_first_minibatch_of_equal_weights_has_ratio_one(bench, acted):
    made = bench(actor=ONE_BATCH)
    metrics = made.learner.update(acted(made.policy, gap=0.0), 0)
    assert metrics["train/actor/ratio"] == pytest.approx(1.0, abs=1e-6)
    assert metrics["train/actor/approx_kl"] == pytest.approx(0.0, abs=1e-9)
    assert metrics["train/actor/clip_fraction"] == 0.0
    assert metrics["train/critic/value_clip_ratio"] == 0.0


def test_critic_warmup_leaves_the_policy_alone(bench, acted):
    made = bench(critic_warmup_updates=1, actor=ONE_BATCH, optim={"lr": 0.1, "lr_warmup_steps": 2})
    before = copy.deepcopy(made.policy.state_dict())
    trajectory = acted(made.policy)
    metrics = made.learner.update(trajectory, 0)
    after = copy.deepcopy(made.policy.state_dict())
    assert metrics["train/actor/lr"] == 0.0
    assert all(torch.equal(before[n], after[n]) for n in before if not n.startswith("value"))
    assert not torch.equal(before["value.weight"], after["value.weight"])
    # its turn: warm-up from the start, all parameters trained again
    assert made.learner.update(trajectory, 1)["train/actor/lr"] == 0.1
    assert not torch.equal(after["mean.weight"], made.policy.mean.weight)
    assert all(p.requires_grad for p in made.policy.parameters())


def test_critic_warmup_without_a_critic_is_refused(refused, bench, acted):
    made = bench(critic_warmup_updates=1)
    groups = made.policy.parameter_groups()
    made.policy.parameter_groups = lambda: {**groups, "value": []}
    with refused(ConfigError, "critic_warmup_updates", text=False):
        made.learner.update(acted(made.policy), 0)


def test_drifting_too_far_ends_the_update(bench, acted):
    made = bench(target_kl=0.02, update_epoch=50, actor=ONE_BATCH, optim={"lr": 1e-2})
    metrics = made.learner.update(acted(made.policy, gap=0.0, columns=16), 0)
    assert 0 < metrics["train/actor/optimizer_steps"] < 50
    assert metrics["train/actor/approx_kl"] <= 0.02
    # a policy that disagrees with itself from the start makes no step, and its KL is seen
    far = made.learner.update(acted(made.policy, gap=1.0), 1)
    assert far["train/actor/optimizer_steps"] == 0 and far["train/actor/approx_kl"] > 0.02


def test_recomputed_logprobs_replace_the_stored_ones(bench, acted):
    for recompute, gap in ((False, True), (True, False)):
        made = bench(recompute_logprobs=recompute, actor=ONE_BATCH)
        metrics = made.learner.update(acted(made.policy, gap=0.3), 0)
        assert (metrics["train/actor/approx_kl"] > 1e-3) is gap


def test_reference_kl_holds_to_the_first_weights(bench, acted):
    made = bench(kl_beta=0.1, actor=ONE_BATCH, optim={"lr": 0.05})
    trajectory = acted(made.policy, gap=0.0)
    start = copy.deepcopy(made.policy.state_dict())
    assert made.learner.update(trajectory, 0)["train/actor/kl_reference"] == pytest.approx(
        0, abs=1e-9
    )
    with torch.no_grad():
        now = made.policy.evaluate(trajectory.inputs, trajectory.replay).logprobs
        moved = copy.deepcopy(made.policy.state_dict())
        made.policy.load_state_dict(start)
        first = made.policy.evaluate(trajectory.inputs, trajectory.replay).logprobs
        made.policy.load_state_dict(moved)
    made_at = trajectory.sample_index >= 0
    x = (first - now)[trajectory.sample_index[made_at]]
    x = (x * trajectory.valid[made_at].unsqueeze(-1)).sum((1, 2))
    metrics = made.learner.update(trajectory, 1)
    assert metrics["train/actor/kl_reference"] == pytest.approx(
        float((x.exp() - x - 1).mean()), rel=1e-4
    )
    # the reference is part of the state
    saved = made.learner.state_dict()
    other = bench(kl_beta=0.1)
    other.learner.load_state_dict(saved)
    reference = other.learner.state_dict()["tensors"]["reference.0"]
    assert torch.equal(reference, start["mean.weight"])


def test_a_bad_gradient_is_skipped_counted_and_kept_out_of_the_means(bench, acted):
    made = bench(actor={"global_batch_size": 10, "micro_batch_size": 10})
    trajectory = acted(made.policy, chunks=5, columns=4)
    samples = make_samples(trajectory, made.algorithm.advantages(trajectory), made.config)
    places = next(minibatches(samples, 10, seed=0, update=0, epoch=0))
    row = trajectory.sample_index.flatten()[places[0]]
    trajectory.inputs["features"][row] = float("nan")
    metrics = made.learner.update(trajectory, 0)
    assert metrics["train/actor/skipped_steps"] == 1.0
    assert metrics["train/actor/optimizer_steps"] == 1.0
    assert np.isfinite(list(metrics.values())).all()
    assert all(bool(p.isfinite().all()) for p in made.policy.parameters())
    # half is no more than half: the run continues with a warning
    warning = made.learner.warnings["skipped steps"]
    assert "update 1" in warning and "1 of the 2 steps" in warning
    clean = acted(made.policy, chunks=5, columns=4)
    made.learner.update(clean, 1)
    assert made.learner.warnings["skipped steps"] == warning  # which is shown once


@pytest.mark.parametrize("micro_batch_size", [5, 2])
def test_an_update_that_skips_most_steps_is_refused(refused, bench, acted, micro_batch_size):
    """Four steps of five samples; each of three has one sample that is NaN."""
    made = bench(actor={"global_batch_size": 5, "micro_batch_size": micro_batch_size})
    trajectory = acted(made.policy, chunks=5, columns=4)
    samples = make_samples(trajectory, made.algorithm.advantages(trajectory), made.config)
    row = trajectory.sample_index.flatten()
    for places in list(minibatches(samples, 5, seed=0, update=0, epoch=0))[1:]:
        trajectory.inputs["features"][row[places[0]]] = float("nan")
    with refused(TrainingError, "3 of the 4 steps", "rlcore resume"):
        made.learner.update(trajectory, 0)


@pytest.mark.parametrize("kl_beta", [0.0, 0.1])
def test_an_outlier_among_the_ratios_is_counted_and_costs_no_step(bench, acted, kl_beta):
    made = bench(actor=ONE_BATCH, kl_beta=kl_beta)
    trajectory = acted(made.policy, chunks=5, columns=4)
    t, n = (int(x[0]) for x in (trajectory.sample_index >= 0).nonzero(as_tuple=True))
    trajectory.logprobs[t, n] = -200.0  # e^200 and more
    metrics = made.learner.update(trajectory, 0)
    assert metrics["train/actor/skipped_steps"] == 0.0
    assert metrics["train/actor/clamped_log_ratios"] == 1.0
    assert np.isfinite(list(metrics.values())).all()


def test_an_update_that_skips_all_steps_is_refused_and_changes_nothing(refused, bench, acted):
    made = bench(actor={"global_batch_size": 10, "micro_batch_size": 10})
    before = copy.deepcopy(made.policy.state_dict())
    trajectory = acted(made.policy, chunks=5, columns=4)
    trajectory.inputs["features"][:] = float("nan")
    with refused(TrainingError, "update 8", "2 of the 2 steps"):
        made.learner.update(trajectory, 7)
    after = made.policy.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_batch_without_valid_samples_changes_nothing(bench, acted):
    made = bench(optim={"lr": 0.1})
    before = copy.deepcopy(made.policy.state_dict())
    trajectory = acted(made.policy)
    trajectory.valid[:] = False
    metrics = made.learner.update(trajectory, 0)
    assert metrics["train/actor/optimizer_steps"] == metrics["train/actor/trained_samples"] == 0
    assert "train/actor/approx_kl" not in metrics
    assert all(torch.equal(before[n], x) for n, x in made.policy.state_dict().items())


def test_resumed_equals_uninterrupted(bench, acted):
    settings = {
        "actor": {"global_batch_size": 16, "micro_batch_size": 8},
        "optim": {"lr": 1e-2, "lr_warmup_steps": 6},
        "update_epoch": 2,
    }
    straight = bench(**settings)
    batches = [acted(straight.policy, seed=s, chunks=8, columns=6) for s in (1, 2)]
    for update, batch in enumerate(batches):
        straight.learner.update(copy.deepcopy(batch), update)
    first = bench(**settings)
    first.learner.update(copy.deepcopy(batches[0]), 0)
    resumed = bench(**settings)
    resumed.policy.load_state_dict(copy.deepcopy(first.policy.state_dict()))
    resumed.learner.load_state_dict(first.learner.state_dict())
    resumed.learner.update(copy.deepcopy(batches[1]), 1)
    for name, weight in straight.policy.state_dict().items():
        assert torch.equal(weight, resumed.policy.state_dict()[name])


def test_a_minibatch_without_samples_has_no_forward(bench, acted, monkeypatch):
    """All decisions were filtered out. Some networks refuse a forward of no rows."""
    made = bench(kl_beta=0.1, actor=ONE_BATCH)
    trajectory = acted(made.policy)
    trajectory.valid[:] = False
    evaluate = made.policy.evaluate
    rows = []

    def watched(inputs, replay):
        rows.append(len(next(iter(inputs.values()))))
        return evaluate(inputs, replay)

    monkeypatch.setattr(made.policy, "evaluate", watched)
    metrics = made.learner.update(trajectory, 0)
    assert rows == []
    assert metrics["train/actor/trained_samples"] == 0


def test_an_update_without_gradients_is_seen_to_learn_nothing(bench, acted):
    made = bench(actor=ONE_BATCH, update_epoch=3)
    trajectory = acted(made.policy, chunks=5, columns=4)
    assert made.learner.update(trajectory, 0)["train/actor/zero_gradient_steps"] == 0.0
    for parameter in made.policy.parameters():  # nothing reaches the weights any more
        parameter.register_hook(torch.zeros_like)
    metrics = made.learner.update(trajectory, 1)
    assert metrics["train/actor/zero_gradient_steps"] == 3.0
    assert metrics["train/actor/optimizer_steps"] == 3.0
    assert "all gradients are zero" in nothing_learned(2, metrics, AlgorithmConfig())


def test_steps_too_small_for_the_weights_are_seen(bench, acted):
    tiny = {"lr": 1e-30, "value_lr": 1e-30}
    made = bench(actor=ONE_BATCH, optim=tiny)
    trajectory = acted(made.policy, chunks=5, columns=4)
    metrics = made.learner.update(trajectory, 0)
    assert metrics["train/actor/zero_gradient_steps"] == 0.0
    assert metrics["train/actor/weights_moved"] == 0.0
    assert "actor.optim.lr" in nothing_learned(1, metrics, AlgorithmConfig())


@pytest.mark.parametrize(
    ("fraction", "reason"),
    [
        ({"train/actor/trained_fraction": 0.0}, "no sample"),
        ({"train/actor/trained_fraction": 0.5}, "algorithm.target_kl"),
        ({}, "no sample"),  # of an algorithm with batches of its own
    ],
)
def test_an_update_without_a_step_has_a_reason(fraction, reason):
    metrics = {"train/actor/optimizer_steps": 0.0, "train/actor/trained_samples": 0.0, **fraction}
    assert reason in str(nothing_learned(3, metrics, AlgorithmConfig()))


def test_a_loss_does_not_replace_metrics_of_the_batch(bench, acted):
    made = bench()
    trajectory = acted(made.policy)
    right = made.algorithm.loss
    plain = bench().learner.update(trajectory, 0)["rollout/rewards"]

    def loss(now, batch):
        answer, metrics = right(now, batch)
        return answer, {**metrics, "rollout/rewards": metric.observation(99.0)}

    made.algorithm.loss = loss
    assert made.learner.update(trajectory, 0)["rollout/rewards"] == plain != 99


def test_a_factory_that_returns_no_algorithm_is_refused(refused):
    rest = ("algorithm odd", "m:f", "an algorithm", ("needs", AlgorithmNeeds), AlgorithmError)
    require_component(SimpleNamespace(needs=AlgorithmNeeds()), *rest)
    for made, found in ((SimpleNamespace, "the class SimpleNamespace"), (None, "a NoneType")):
        with refused(AlgorithmError, "algorithm odd", "m:f", found):
            require_component(made, *rest)


def test_invalid_results_of_an_algorithm_are_refused(refused, bench, play):
    """One error that names the algorithm, not a traceback from deep inside."""
    made = bench()
    advantages = made.algorithm.advantages
    made.algorithm.advantages = lambda t: replace(advantages(t), returns=torch.zeros(3))
    with refused(AlgorithmError, "algorithm toy", "returns"):
        made.learner.update(play(), 0)
    made.algorithm.advantages = advantages
    made.algorithm.loss = lambda now, batch: (batch.advantages, {})
    with refused(AlgorithmError, "algorithm toy", "loss"):
        made.learner.update(play(), 0)
