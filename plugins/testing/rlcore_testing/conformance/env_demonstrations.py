"""Check that an expert's demonstrations are correct."""

from __future__ import annotations

import numpy as np

from rlcore.validation.env import demonstration_fault
from rlcore_testing.conformance.base import (
    require,
    require_equal,
    require_refused,
    require_valid,
    skip_unless,
)
from rlcore_testing.conformance.env_subject import DEMONSTRATED, EnvSubject


class DemonstrationChecks(EnvSubject):
    """Checks of demonstrations."""

    def test_demonstrations_follow_the_spec(self) -> None:
        low, high = self.action_range()
        limit = self.spec.max_episode_steps
        for demonstration in self.demonstrations():
            where = f"the demonstration of {tuple(demonstration.episode)}"
            require_valid(where, demonstration_fault(self.spec, demonstration))
            actions = demonstration.actions
            assert len(actions) <= limit, (
                f"{where} has {len(actions)} actions, expected at most {limit}"
                "\n  hint: end it at the time limit"
            )
            require_equal(
                f"frame_steps of {where} with stride={self.stride}",
                demonstration.frame_steps,
                np.arange(0, len(actions), self.stride),
                "a frame before steps 0, stride, 2 stride, ...",
            )
            outside = int(((actions < low) | (actions > high)).sum())
            assert not outside, (
                f"{outside} entries of the actions of {where} lie outside the env's range"
                "\n  hint: clip the expert's actions: policies learn from them"
            )

    def test_each_episode_is_demonstrated_once(self) -> None:
        require(
            "the list of episodes demonstrated",
            sorted(tuple(demonstration.episode) for demonstration in self.demonstrations()),
            sorted(map(tuple, self.episodes(DEMONSTRATED))),
            "yield one demonstration per episode asked for, with its own address",
        )

    def test_a_demonstration_replays(self) -> None:
        """Its actions, replayed in the env, visit the same states and succeed.

        If a chunk is one motion, success is not required: the demonstration is cut at its success,
        so that its last chunk may be another motion.
        """
        self.skip_unless_deterministic()
        solved = [demonstration for demonstration in self.demonstrations() if demonstration.success]
        skip_unless(bool(solved), "the expert solved none of the episodes tried")
        env = self.env(1)
        actions = solved[0].actions
        episode = solved[0].episode
        observation, _ = env.reset(options={"episodes": [episode]})
        length = self.stride if self.spec.whole_chunks else 1
        for step in range(0, len(actions), length):
            self.require_close(
                f"the demonstration's state before step {step}",
                solved[0].states[step],
                observation["states"][0],
                "states and actions are those before each step of the episode, from its reset on",
            )
            result = env.chunk_step(actions[None, step : step + length])
            observation = result.observation
        assert result.success[0] or self.spec.whole_chunks, (
            f"the {len(actions)} actions of a successful demonstration of {tuple(episode)} don't "
            "succeed when they are played\n  hint: with action_noise=0 the env executes the very "
            "actions that are handed out"
        )

    def test_demonstration_noise_is_keyed_by_the_episode(self) -> None:
        self.demonstrations()
        self.skip_unless_deterministic()
        first, second = self.episodes(2)
        noisy = {"action_noise": 0.2, "max_steps": 6}
        (alone,) = self.demonstrate([first], **noisy)
        later = {d.episode: d for d in self.demonstrate([second, first], **noisy)}[first]
        (reseeded,) = self.demonstrate([first], seed=1, **noisy)
        label = "of a demonstration with action_noise, made after another"
        hint = "key the noise by (seed, episode)"
        self.require_close(f"states {label}", later.states, alone.states, hint)
        self.require_close(f"actions {label}", later.actions, alone.actions, hint)
        equal = np.array_equal(reseeded.states, alone.states)
        require("whether seeds 0 and 1 of action_noise give equal states", equal, False, hint)

    def test_a_demonstration_has_its_own_time_limit(self) -> None:
        self.demonstrations()
        (cut,) = self.demonstrate(self.episodes(1), max_steps=2)
        assert len(cut.actions) <= 2, (
            f"a demonstration with max_steps=2 has {len(cut.actions)} steps, expected at most 2"
            "\n  hint: max_steps replaces the env's time limit"
        )

    def test_an_env_without_an_expert_says_so(self) -> None:
        skip_unless(not self.spec.has_expert, "spec.has_expert is true")
        require_refused(
            "demonstrate of an env without an expert",
            lambda: self.demonstrate(self.episodes(1)),
            "set has_expert=True in the spec, or raise rlcore.contracts.errors.UserError",
        )
