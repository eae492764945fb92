"""Components with one fault each: the conformance checks that fail are those of the fault."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from rlcore_algo_ppo.ppo import PPO
from rlcore_algo_rft.rft import RFT
from rlcore_policy_gradient.advantage import NORMALIZATION_EPS
from rlcore_testing import (
    AlgorithmConformance,
    EnvConformance,
    PolicyConformance,
    ReplayConformance,
    check,
)
from rlcore_testing.conformance.base import Conformance, LeftOut, Report, sentence
from rlcore_testing.conformance.trajectories import Bandit, bandit_rollout
from rlcore_testing.toy_env import ToyEnv
from rlcore_testing.toy_policy import ToyPolicy, _logprob
from rlcore_testing.toy_settings import ToyEnvConfig, env_spec

from rlcore.contracts.errors import ConfigError
from rlcore.contracts.rng import generator
from rlcore.contracts.specs import ComponentSpec


class QuickChecks:
    """A mixin that leaves out the checks that start an interpreter; they pass for all cases."""

    test_settings_and_facts_load_nothing_heavy = None
    test_simulating_loads_no_tensor_library = None


def findings(suite: type[Conformance], **attributes) -> set[str]:
    """Return the names of the checks that fail in a test class with these attributes."""
    attributes = {"name": "toy", **attributes}
    return {
        finding.check
        for finding in type("Suite", (QuickChecks, suite), attributes).report().findings
    }


# -- envs -----------------------------------------------------------------------------------


class StartsByRow(ToyEnv):
    """Its starts are keyed by the row too."""

    def _start(self, row, episode):
        super()._start(row, episode)
        if row:
            self._position[row] = generator("start", row, *episode[:2]).uniform(-0.4, 0.4, 2)


class KeepsDrift(ToyEnv):
    """A hidden drift grows from episode to episode; no observation of a start shows it."""

    _drift = 0.0

    def reset(self, **named):
        self._drift += 0.001
        return super().reset(**named)

    def _advance(self, actions):
        return super()._advance(actions + np.float32(self._drift))


class GoesOnAfterTheEnd(ToyEnv):
    """Says that steps after the end of a row were simulated."""

    def chunk_step(self, actions):
        before = self._running.copy()
        result = super().chunk_step(actions)
        result.valid = np.broadcast_to(before[:, None], result.valid.shape).copy()
        return result


class TruncatesSuccess(ToyEnv):
    """The time limit goes before success."""

    def _advance(self, actions):
        rewards, terminated, truncated = super()._advance(actions)
        late = terminated & (self._steps >= self.spec.max_episode_steps)
        return rewards, terminated, truncated | late


class SaysNan(ToyEnv):
    """Its measure of success is no number before there is any."""

    def chunk_step(self, actions):
        result = super().chunk_step(actions)
        result.success = np.where(result.success, 1, np.nan).astype(np.float32)
        return result


class HandsOutItsBuffer(ToyEnv):
    """Observations share the env's own array of states."""

    def _observe(self):
        return {**super()._observe(), "states": self._position}


class ResetsEveryRow(ToyEnv):
    """Looks past the mask."""

    def reset(self, *, seed=None, options=None):
        options = {k: v for k, v in (options or {}).items() if k != "reset_mask"}
        return super().reset(seed=seed, options=options)


BROKEN_ENVS = {
    StartsByRow: {
        "a start is the same in another row",
        "a start is the same with another number of rows",
        "only masked rows are reset",
    },
    KeepsDrift: {
        "a start repeats after other episodes",
        "a start is the same in another row",
        "a start is the same in a second instance",
        "a start is the same with another number of rows",
        "replicas share their start",
        "a demonstration replays",
        "actions beyond the range are clipped",
        "a truncated row shows its final frame",
    },
    GoesOnAfterTheEnd: {
        "a row stops at its first end",
        "a run accepts what it hands out",
    },
    SaysNan: {
        "a row stops at its first end",
        "a run accepts what it hands out",
        "success is that of the present episode",  # NaN counts as true
    },
    TruncatesSuccess: {"success at the time limit terminates"},
    HandsOutItsBuffer: {"observations handed out are not written to later"},
    ResetsEveryRow: {"only masked rows are reset", "rows never reset are idle"},
}


@pytest.mark.parametrize("broken", BROKEN_ENVS, ids=lambda cls: cls.__name__)
def test_a_broken_env(broken):
    assert BROKEN_ENVS[broken] == findings(
        EnvConformance,
        settings={"max_episode_steps": 20},
        make=lambda self, config, num_envs: broken(config, num_envs),
    )


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes an importable module: `module(name, text)`; other interpreters find it too."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    return lambda name, text: (tmp_path / f"{name}.py").write_text(text)


@pytest.mark.long
def test_an_env_that_loads_the_model_stack_is_found(module, refused):
    module("heavy_env", "import torch\nfrom rlcore_testing.toy_env import make\n")
    toy = EnvConformance.component(type("Toy", (EnvConformance,), {"name": "toy"})())
    suite = type(
        "Suite", (EnvConformance,), {"component": lambda _: replace(toy, target="heavy_env:make")}
    )
    with refused(AssertionError, "torch", text=False):
        suite().test_simulating_loads_no_tensor_library()
    suite.simulator_loads = ("torch",)
    suite().test_simulating_loads_no_tensor_library()


def test_an_env_that_raises_is_a_finding():
    messages = {f.check: f.message for f in check("env", "toy", max_episode_steps=20, fail_at=2)}
    message = messages["a start repeats after other episodes"]
    assert "RuntimeError" in message and "toy_env.py:" in message


class Rounded(ToyEnv):
    """Restores its starts from a stored state, to rounding."""

    changes: ClassVar[dict[str, object]] = {"start_exactness": "stored_state"}
    drift = 0.0

    def __init__(self, config, num_envs):
        super().__init__(config, num_envs)
        self.spec = replace(self.spec, **self.changes)

    def _start(self, row, episode):
        super()._start(row, episode)
        self._position[row] += np.random.default_rng().uniform(0, 1e-5, 2)

    def _advance(self, actions):
        noise = np.random.default_rng().normal(0, self.drift, actions.shape)
        return super()._advance(actions + noise.astype(np.float32))


class RoundedAndNoisy(Rounded):
    """Restores its starts to rounding, and draws noise at each step."""

    changes: ClassVar[dict[str, object]] = {
        "start_exactness": "stored_state",
        "deterministic": False,
    }
    drift = 0.1


class Noisy(RoundedAndNoisy):
    """Has exact starts, and draws noise at each step."""

    changes: ClassVar[dict[str, object]] = {"deterministic": False}

    def _start(self, row, episode):
        ToyEnv._start(self, row, episode)


class NoisyInSilence(Noisy):
    """Draws noise at each step, although its spec says that it is deterministic."""

    changes: ClassVar[dict[str, object]] = {}


class AnotherStart(Rounded):
    """Restores its starts with an error larger than rounding."""

    def _start(self, row, episode):
        super()._start(row, episode)
        self._position[row] += np.random.default_rng().uniform(0.01, 0.1, 2)


class AnotherInstruction(Rounded):
    """Gives another instruction at each start."""

    changes: ClassVar[dict[str, object]] = {
        "start_exactness": "stored_state",
        "open_instructions": True,
    }
    starts = 0

    def reset(self, **named):
        observation, infos = super().reset(**named)
        self.starts += 1
        numbered = [f"{text}, {self.starts}" for text in observation["task_descriptions"]]
        return {**observation, "task_descriptions": numbered}, infos


DETERMINISTIC = {
    "a chunk equals its steps one by one",
    "a demonstration replays",
    "actions beyond the range are clipped",
    "relative rewards are differences",
    "rewards are scaled by reward coef",
    "success at the time limit terminates",
    "ignored terminations leave the time limit",
    "success is that of the present episode",
    "demonstration noise is keyed by the episode",
}
"""Checks that compare the steps after two equal starts."""


def report_of(env: type[ToyEnv]) -> Report:
    """Run the checks of an env, except those of its spec function and of new interpreters."""
    attributes = {
        "name": "toy",
        "settings": {"max_episode_steps": 20},
        "make": lambda self, config, num_envs: env(config, num_envs),
        "test_the_env_has_the_facts_its_spec_function_gave": None,
    }
    return type("Suite", (QuickChecks, EnvConformance), attributes).report()


def left_out_as_not_deterministic(report: Report) -> set[str]:
    return {skip.check for skip in report.left_out if skip.reason == "spec.deterministic is false"}


def test_an_env_whose_starts_are_stored_states_passes():
    report = report_of(Rounded)
    assert report.findings == [] and left_out_as_not_deterministic(report) == set()


@pytest.mark.parametrize("env", [RoundedAndNoisy, Noisy])
def test_an_env_that_is_not_deterministic_passes_without_the_checks_of_steps(env):
    report = report_of(env)
    assert report.findings == [] and left_out_as_not_deterministic(report) >= DETERMINISTIC


@pytest.mark.parametrize(
    ("env", "part"),
    [
        (AnotherStart, "states of the start"),
        (AnotherInstruction, "task_descriptions of the start"),
        (NoisyInSilence, "deterministic=False"),
    ],
)
def test_a_difference_that_the_spec_does_not_allow_is_found(env, part):
    messages = {f.check: f.message + f.hint for f in report_of(env).findings}
    assert part in messages["a start repeats after other episodes"]


def test_a_check_is_left_out_by_its_name():
    attributes = {"name": "toy", "settings": {"max_episode_steps": 20, "fail_at": 2}}
    suite = type("Suite", (QuickChecks, EnvConformance), attributes)
    report = suite.report(skip=["closing twice is safe", "a demonstration replays"])
    failed = {finding.check for finding in report.findings}
    assert LeftOut("a demonstration replays", "as asked for") in report.left_out
    assert "a demonstration replays" not in failed and len(failed) > 5
    # the env fails at one line, after another number of steps in each check
    assert len({finding.cause for finding in report.findings}) == 1


@pytest.mark.parametrize(
    "name", ["test_closing_twice_is_safe", "closing-twice-is-safe", " closing twice  is safe"]
)
def test_a_check_is_named_as_it_is_written_or_printed(name):
    assert sentence(name) in EnvConformance.checks()


class KeepsWhatItEnds(ToyEnv):
    """160 MB of each reset but the first: more than what ran here before lets go of meanwhile."""

    most: ClassVar[int] = 99
    kept: ClassVar[list[np.ndarray]] = []

    def reset(self, *, seed=None, options=None):
        self.resets = getattr(self, "resets", 0) + 1
        if self.resets > 1 and len(self.kept) < self.most:
            self.kept.append(np.ones(20 * 2**20))
        return super().reset(seed=seed, options=options)


class FillsItsCache(KeepsWhatItEnds):
    most = 1


@pytest.mark.quick(1)
@pytest.mark.parametrize(("seconds", "each"), [(0, 3), (60, 6)])
def test_an_env_whose_memory_grows_is_found_in_the_time_there_is(seconds, each, refused):
    facts = {"name": "toy", "memory_episodes": 12, "memory_seconds": seconds}
    type("Suite", (EnvConformance,), facts)().test_memory_does_not_grow_with_episodes()
    facts["make"] = lambda self, config, num_envs: KeepsWhatItEnds(config, num_envs)
    suite = type("Suite", (EnvConformance,), facts)
    with refused(AssertionError, f"{each} episodes", "5 times in a row", text=False):
        suite().test_memory_does_not_grow_with_episodes()
    KeepsWhatItEnds.kept.clear()


def test_an_env_that_fills_a_cache_once_is_none_whose_memory_grows():
    facts = {"name": "toy", "memory_episodes": 12, "memory_seconds": 0}
    facts["make"] = lambda self, config, num_envs: FillsItsCache(config, num_envs)
    type("Suite", (EnvConformance,), facts)().test_memory_does_not_grow_with_episodes()
    assert len(FillsItsCache.kept) == 1
    FillsItsCache.kept.clear()


# -- policies -------------------------------------------------------------------------------


class DrawsFromTorch(ToyPolicy):
    """Explores with torch's global generator."""

    def act(self, inputs, keys, *, deterministic=False):
        output = super().act(inputs, keys, deterministic=True)
        if deterministic:
            return output
        with torch.no_grad():
            mean, std, _ = self._forward({k: torch.from_numpy(v) for k, v in inputs.items()})
            actions = mean + std * torch.randn(mean.shape)
            logprobs = _logprob(actions, mean, std)
        return replace(
            output, actions=actions.numpy(), logprobs=logprobs, replay={"actions": actions}
        )


class ScoresTheClippedAction(ToyPolicy):
    """Evaluates what the env executed, not what was decided."""

    def evaluate(self, inputs, replay):
        return super().evaluate(inputs, {"actions": replay["actions"].clamp(-0.5, 0.5)})


class CentresTheBatch(ToyPolicy):
    """Its features are relative to the batch's mean."""

    def _forward(self, inputs):
        mean, std, values = super()._forward(inputs)
        return mean - mean.mean(0, keepdim=True), std, values


class ForgetsItsStatistics(ToyPolicy):
    """Normalises by statistics that its checkpoint lacks."""

    _scale = 1.0

    def fit_normalizer(self, demonstrations):
        self._scale = float(np.concatenate([d.states for d in demonstrations]).std())

    def prepare(self, observation):
        inputs = super().prepare(observation)
        return {**inputs, "state": (inputs["state"] / self._scale).astype(np.float32)}


class ForgetsTheRange(ToyPolicy):
    """Acts in [-1, 1], whatever the env takes."""

    def __init__(self, config, env_spec):
        unit = tuple(replace(channel, low=-1.0, high=1.0) for channel in env_spec.actions)
        super().__init__(config, replace(env_spec, actions=unit))


class LeavesItsSpreadOut(ToyPolicy):
    """A parameter that requires gradients and is in no group."""

    def parameter_groups(self):
        groups = super().parameter_groups()
        return {**groups, "policy": [p for p in groups["policy"] if p is not self.log_std]}


BROKEN_POLICIES = {
    DrawsFromTorch: {
        "actions scale with the range of the env",
        "equal keys give equal decisions",
        "a row does not depend on its batch",
        "a row does not depend on its place in a fixed batch",
        "progress changes acting and evaluating alike",
        "a saved policy decides the same",
    },
    ScoresTheClippedAction: {
        "evaluating agrees with acting",
        "progress changes acting and evaluating alike",
    },
    CentresTheBatch: {
        "a row does not depend on its batch",
        "a row does not depend on its place in a fixed batch",
        "evaluating rows apart gives the same",
    },
    ForgetsItsStatistics: {"a saved policy decides the same"},
    ForgetsTheRange: {"actions scale with the range of the env"},
    LeavesItsSpreadOut: {"parameter groups are disjoint and cover what trains"},
}


@pytest.mark.parametrize("broken", BROKEN_POLICIES, ids=lambda cls: cls.__name__)
def test_a_broken_policy(broken):
    spec = env_spec(ToyEnvConfig())

    def make(self, config, env_spec=None):
        policy = broken(config, env_spec or self.env_spec)
        if config.model_path is not None:
            good = PolicyConformance.make(self, config)
            policy.load_state_dict(good.state_dict())
        return policy

    assert BROKEN_POLICIES[broken] == findings(
        PolicyConformance, settings={"add_value_head": True}, env_spec=spec, make=make
    )


# -- algorithms -----------------------------------------------------------------------------


class MaximisesItsLoss(PPO):
    """A sign too many."""

    def loss(self, now, batch):
        return super().loss(now, replace(batch, advantages=-batch.advantages))


class AveragesAgain(PPO):
    """Takes a mean of its own over the micro-batch."""

    def loss(self, now, batch):
        loss, metrics = super().loss(now, batch)
        return loss / len(batch), metrics


class NormalisesIdlePlaces(PPO):
    """Counts places where nothing happened into the mean."""

    def advantages(self, trajectory):
        made = super().advantages(trajectory)
        scaled = made.advantages - made.advantages.mean()
        scaled = scaled / (scaled.std() + NORMALIZATION_EPS)
        kept = made.valid.any(-1, keepdim=True)
        return replace(made, advantages=torch.where(kept, scaled, 0.0))


class BootstrapsInSecret(PPO):
    """Reads values of final observations without asking for them."""

    def __init__(self, config):
        super().__init__(config)
        self._config = replace(config, bootstrap_type="standard")


BROKEN_ALGORITHMS = {
    MaximisesItsLoss: {"better actions become likelier", "a bandit learns"},
    AveragesAgain: {"micro batches add up"},
    NormalisesIdlePlaces: {"idle columns and chunks change nothing"},
    BootstrapsInSecret: {"bootstrap values are read where they are needed"},
}


@pytest.mark.parametrize("broken", BROKEN_ALGORITHMS, ids=lambda cls: cls.__name__)
def test_a_broken_algorithm(broken):
    assert BROKEN_ALGORITHMS[broken] == findings(
        AlgorithmConformance, name="ppo", make=lambda self, config: broken(config)
    )


GROUP_RELATIVE = '''
"""Advantages relative to a group, without a critic."""
from rlcore_policy_gradient.group_relative import group_relative
from rlcore_policy_gradient.surrogate import ClippedSurrogate
from rlcore.contracts.specs import AlgorithmNeeds

def needs(config):
    return AlgorithmNeeds(groups=True)

class GroupRelative(ClippedSurrogate):
    needs = AlgorithmNeeds(groups=True)

    def advantages(self, trajectory):
        return group_relative(trajectory, group_size=self._shared.group_size)

    def loss(self, now, batch):
        return self.surrogate(now, batch)
'''


def test_an_algorithm_with_groups_and_without_a_critic_passes(module):
    module("group_algorithm", GROUP_RELATIVE)
    component = ComponentSpec(
        "algorithm",
        "grouped",
        "group_algorithm:GroupRelative",
        spec="group_algorithm:needs",
        config="rlcore_policy_gradient.settings:PolicyGradientConfig",
    )
    settings = {"group_size": 4}
    assert not findings(AlgorithmConformance, component=lambda self: component, settings=settings)


BY_SUCCESS = """
from dataclasses import replace
from group_algorithm import GroupRelative, needs

class OfMixedGroups(GroupRelative):
    def advantages(self, trajectory):
        won, group = trajectory.success.any(0), trajectory.group[0]
        alike = group[:, None] == group[None, :]
        mixed = (alike & won).any(1) & (alike & ~won).any(1)
        made = super().advantages(trajectory)
        valid = made.valid & mixed[None, :, None]
        kept = valid.any(-1, keepdim=True)
        return replace(made, valid=valid, advantages=made.advantages * kept)
"""


def test_the_bandit_has_successes_and_failures():
    """Where actions are drawn around 0, |a - 1| < 1 for 0.477 of them, and around 1 for 0.683."""
    policy = Bandit()
    for mean, share in ((0.0, 0.477), (1.0, 0.683)):
        torch.nn.init.constant_(policy.mean, mean)
        played = bandit_rollout(policy, seed=0, columns=4000)
        assert float(played.success.float().mean()) == pytest.approx(share, abs=0.03)
        assert played.rewards.min() > 0 and played.rewards.max() <= 1


def test_an_algorithm_that_filters_by_success_passes(module):
    """It trains on groups in which some episodes succeeded and some failed."""
    module("group_algorithm", GROUP_RELATIVE)
    module("filtering_algorithm", BY_SUCCESS)
    component = ComponentSpec(
        "algorithm",
        "mixed",
        "filtering_algorithm:OfMixedGroups",
        spec="group_algorithm:needs",
        config="rlcore_policy_gradient.settings:PolicyGradientConfig",
    )
    settings = {"group_size": 4}
    assert not findings(AlgorithmConformance, component=lambda self: component, settings=settings)


class DrawsByItself(RFT):
    """Takes rows that no key gives."""

    def updates(self, learning):
        def loss(rows, keys):
            return learning.imitation_loss(rows, keys), {}

        for _ in range(10):
            rows = torch.randint(learning.replay.count("demonstrations"), (4,))
            yield learning.step(rows + torch.randint(8, (1,)), loss, trains=["policy"])


class RemembersBesides(RFT):
    """Makes more steps the more updates it has seen, which no checkpoint tells it."""

    seen = 4

    def updates(self, learning):
        self.seen += 1
        yield from list(super().updates(learning))[: self.seen]


class ImitatesNothing(RFT):
    """Trains on rows whose loss depends on no parameter."""

    def updates(self, learning):
        for step in super().updates(learning):
            yield replace(step, loss=lambda places, given=step.loss: (0 * given(places)[0], {}))


BROKEN_REPLAYS = {
    DrawsByItself: {"updates repeat", "a resumed run goes on as if uninterrupted"},
    RemembersBesides: {"a resumed run goes on as if uninterrupted"},
    ImitatesNothing: {"a bandit learns"},
}


@pytest.mark.quick(1)
@pytest.mark.parametrize("broken", BROKEN_REPLAYS, ids=lambda cls: cls.__name__)
def test_a_broken_algorithm_with_a_replay(broken):
    assert BROKEN_REPLAYS[broken] == findings(
        ReplayConformance,
        name="rft",
        settings={"steps": 12},
        make=lambda self, config: broken(config),
    )


def test_a_kind_without_checks_is_refused(refused):
    with refused(ConfigError, "modle", "model"):
        check("modle", "toy")
