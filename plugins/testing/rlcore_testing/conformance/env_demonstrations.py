"""Check that an expert's demonstrations are correct."""

from __future__ import annotations

from functools import partial

import numpy as np

from rlcore.contracts.errors import UserError
from rlcore.validation.env import demonstration_fault
from rlcore_testing.conformance.base import (
    Deviation,
    require,
    require_equal,
    require_fields,
    require_none,
    skip_unless,
)
from rlcore_testing.conformance.env_subject import EnvSubject


class DemonstrationChecks(EnvSubject):
    """Checks of demonstrations."""

    def test_demonstrations_follow_the_spec(self) -> None:
        low, high = self.action_range()
        for demonstration in self.expert():
            length, spec = len(demonstration.actions), self.spec
            steps = np.arange(0, length, self.stride, dtype=np.int64)
            where = f"of the demonstration of {tuple(demonstration.episode)}"
            require(
                0 < length <= spec.max_episode_steps,
                f"{length} actions {where}, expected 1 to {spec.max_episode_steps}",
                hint="end it at the time limit",
            )
            require_none(f"the demonstration of {tuple(demonstration.episode)}",
                         demonstration_fault(spec, demonstration))  # fmt: skip
            require_equal(f"frame_steps {where} with stride={self.stride}",
                          demonstration.frame_steps, steps,
                          hint="a frame before steps 0, stride, 2 stride, ...")  # fmt: skip
            outside = (demonstration.actions < low) | (demonstration.actions > high)
            require(
                not outside.any(),
                f"{int(outside.sum())} entries of the actions {where} lie outside the env's range",
                hint="clip the expert's actions: policies learn from them",
            )

    def test_each_episode_is_demonstrated_once(self) -> None:
        asked = self.demonstrated()
        got = [demonstration.episode for demonstration in self.expert()]
        require(
            sorted(got) == sorted(asked),
            f"demonstrations of {[tuple(e) for e in got]}, expected {[tuple(e) for e in asked]}",
            hint="yield one demonstration per episode asked for, with its own address",
        )

    def test_a_demonstration_replays(self) -> None:
        """Its actions, replayed in the env, visit the same states and succeed.

        If a chunk is one motion, success is not required: the demonstration is cut at its success,
        so that its last chunk may be another motion.
        """
        self.repeats_its_course()
        demonstration = next((d for d in self.expert() if d.success), None)
        skip_unless(demonstration is not None, "the expert solved none of the episodes tried")
        assert demonstration is not None
        env, actions = self.env(1), demonstration.actions
        observation, _ = env.reset(options={"episodes": [demonstration.episode]})
        hint = "states and actions are those before each step of the episode, from its reset on"
        length = self.stride if self.spec.whole_chunks else 1
        for step in range(0, len(actions), length):
            self.require_close(f"the demonstration's state before step {step}",
                                demonstration.states[step], observation["states"][0],
                                hint=hint)  # fmt: skip
            result = env.chunk_step(actions[None, step : step + length])
            observation = result.observation
        require(
            bool(result.success[0]) or self.spec.whole_chunks,
            f"the {len(actions)} actions of a successful demonstration of "
            f"{tuple(demonstration.episode)} don't succeed when they are played",
            hint="with action_noise=0 the env executes the very actions that are handed out",
        )

    def test_demonstration_noise_is_keyed_by_the_episode(self) -> None:
        self.expert()
        self.repeats_its_course()
        first, second = self.demonstrated()[:2]
        wish = partial(self.demonstrate, noise=0.2, max_steps=6)
        alone, (_, later) = (
            wish([first])[0],
            sorted(wish([second, first]), key=lambda demonstration: demonstration.episode == first),
        )
        hint = "key the noise by (seed, episode)"
        what = "of a demonstration with action_noise, made after another"
        require_fields(("states", "actions"), what, later, alone, atol=self.tolerance,
                       hint=hint)  # fmt: skip
        reseeded = wish([first], seed=1)[0]
        require(
            not np.array_equal(reseeded.states, alone.states),
            "demonstrations with action_noise under seeds 0 and 1 are equal, expected other noise",
            hint=hint,
        )

    def test_a_demonstration_has_its_own_time_limit(self) -> None:
        self.expert()
        (cut,) = self.demonstrate(self.demonstrated()[:1], max_steps=2)
        require(
            len(cut.actions) <= 2,
            f"a demonstration with max_steps=2 has {len(cut.actions)} steps, expected at most 2",
            hint="max_steps replaces the env's time limit",
        )

    def test_an_env_without_an_expert_says_so(self) -> None:
        skip_unless(not self.spec.has_expert, "spec.has_expert is true")
        try:
            self.demonstrate(self.episodes(1))
        except UserError:
            return
        raise Deviation(
            "demonstrate gave demonstrations although spec.has_expert is false",
            hint="set has_expert=True in the spec, or raise rlcore.contracts.errors.UserError",
        )
