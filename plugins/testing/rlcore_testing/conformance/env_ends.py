"""Check when the episodes of rows end: by success, by the time limit, and if both coincide."""

from __future__ import annotations

import numpy as np

from rlcore.validation.env import chunk_fault
from rlcore_testing.conformance.base import require, require_equal, require_valid, skip_unless
from rlcore_testing.conformance.env_subject import (
    ALL_ROWS,
    CHUNK,
    ROUNDING,
    ROWS,
    SHORT,
    EnvSubject,
    extended,
)

IGNORED = "under config.ignore_terminations success is noted, and the episode continues"


class EndChecks(EnvSubject):
    """Checks of the ends of episodes."""

    def test_a_row_stops_at_its_first_end(self) -> None:
        """Rows of one env end at different steps, by success and by the time limit."""
        episodes, actions = self.to_the_end()
        env = self.env()
        length = self.spec.max_episode_steps + 2
        result = self.play(env, episodes, extended(actions, length)).result
        fault = chunk_fault(self.spec, ROWS, length, result, ALL_ROWS, ~ALL_ROWS)
        require_valid("a chunk longer than the time limit", fault)
        ended = (result.terminated | result.truncated).any(axis=1)
        assert ended.all(), (
            f"{int(ended.sum())} of {ROWS} episodes ended within {length} steps, 2 more than the "
            "time limit, expected all\n  hint: truncate at spec.max_episode_steps"
        )
        after = env.chunk_step(self.actions(ROWS))
        assert not after.valid.any() and not after.rewards.any(), (
            "rows whose episodes have ended continue in the next chunk, expected valid false and "
            "reward 0 until they are reset\n  hint: AutoresetMode.DISABLED: a row is idle after "
            "its end"
        )
        hint = "success is sticky until the row is reset"
        label = "success of ended rows, one chunk later"
        require_equal(label, after.success, result.success, hint)

    def test_the_time_limit_truncates(self) -> None:
        env = self.env(max_episode_steps=SHORT, ignore_terminations=True)
        first = self.play(env, self.episodes(ROWS), self.still(ROWS, CHUNK)).result
        hint = "count the steps of each row, and truncate where they reach max_episode_steps"
        assert first.valid.all() and not first.truncated.any(), (
            f"an episode ended within {CHUNK} steps under max_episode_steps={SHORT} and "
            f"ignore_terminations=true, expected it to continue\n  hint: {hint}"
        )
        elapsed = first.observation["elapsed"]
        require_equal(
            f"elapsed after {CHUNK} of {SHORT} steps",
            elapsed,
            np.full(ROWS, CHUNK / SHORT),
            "elapsed is steps / max_episode_steps",
            atol=ROUNDING,
        )
        second = env.chunk_step(self.still(ROWS, CHUNK))
        expected = np.tile(np.arange(CHUNK) == SHORT - CHUNK - 1, (ROWS, 1))
        steps = f"steps {CHUNK} to {2 * CHUNK - 1} under max_episode_steps={SHORT}"
        require_equal(f"truncated in {steps}", second.truncated, expected, hint)
        assert not second.terminated.any(), (
            "the time limit set terminated, expected truncated alone\n  hint: a termination says "
            "that the future is worth nothing; a time limit does not"
        )

    def test_a_truncated_row_shows_its_final_frame(self) -> None:
        skip_unless(self.spec.renders_final, "spec.renders_final is false")
        skip_unless(self.spec.start_exactness == "bitwise", "frames are not promised to be equal")
        self.skip_unless_deterministic()
        limited = self.env(max_episode_steps=SHORT, ignore_terminations=True)
        final, longer = (
            self.play(env, self.episodes(ROWS), self.still(ROWS, SHORT)).result
            for env in (limited, self.env())
        )
        skip_unless(not longer.terminated.any(), "the episode ends by itself")
        for name, frames in longer.observation["cameras"].items():
            require_equal(
                f"the frame of camera {name!r} at the time limit",
                final.observation["cameras"][name],
                frames,
                "render it, as its value is bootstrapped from, or say renders_final=False in the "
                "spec",
            )

    def test_success_at_the_time_limit_terminates(self) -> None:
        episode, actions = self.solved()
        env = self.env(1, max_episode_steps=len(actions))
        result = self.play(env, [episode], actions[None]).result
        require(
            "(terminated, truncated) at a success at the last step of the time limit",
            (bool(result.terminated[0, -1]), bool(result.truncated[0, -1])),
            (True, False),
            "a termination takes precedence: truncated = limit reached and not terminated",
        )

    def test_ignored_terminations_leave_the_time_limit(self) -> None:
        episode, actions = self.solved()
        limit = len(actions) + 2
        env = self.env(1, ignore_terminations=True, max_episode_steps=limit)
        result = self.play(env, [episode], extended(actions[None], limit + 1)).result
        assert not result.terminated.any(), (
            "ignore_terminations=true, yet the episode terminated, expected it to continue"
            f"\n  hint: {IGNORED}"
        )
        label = f"truncated under ignore_terminations=true and max_episode_steps={limit}"
        require_equal(label, result.truncated[0], np.arange(limit + 1) == limit - 1, IGNORED)
        assert result.success[0], (
            f"success is false {len(actions)} steps into a solved episode, expected it to stay "
            "true\n  hint: success is sticky: whether the episode has succeeded so far"
        )

    def test_success_is_that_of_the_present_episode(self) -> None:
        episode, actions = self.solved()
        env = self.env(1)
        solved = self.play(env, [episode], actions[None]).result
        assert solved.success[0] and solved.terminated[0, -1], (
            "the solution's last step gave no success and no termination"
            "\n  hint: success true and terminated at the step that solves the task"
        )
        after = self.play(env, [episode], self.still(1, 1)).result
        assert not after.success[0], (
            "success is still true after a reset, expected false"
            "\n  hint: clear it where the episode starts"
        )
