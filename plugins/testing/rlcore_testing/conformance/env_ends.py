"""Check when the episodes of rows end: by success, by the time limit, and if both coincide."""

from __future__ import annotations

import numpy as np

from rlcore_testing.conformance.base import (
    require,
    require_equal,
    skip_unless,
)
from rlcore_testing.conformance.env_subject import (
    CHUNK,
    ROUNDING,
    ROWS,
    SHORT,
    EnvSubject,
    extended,
)


class EndChecks(EnvSubject):
    """Checks of the ends of episodes."""

    def test_a_row_stops_at_its_first_end(self) -> None:
        """Rows of one env end at different steps, by success and by the time limit."""
        episodes, actions = self.to_the_end()
        length = self.spec.max_episode_steps
        env = self.env()
        result = self.play(env, episodes, extended(actions, length + 2)).result
        ended = result.terminated | result.truncated
        for row in range(ROWS):
            steps = int(ended[row].argmax()) + 1 if ended[row].any() else length
            expected = np.arange(length + 2) < steps
            require_equal(
                f"valid of row {row}, whose episode ended at step {steps - 1}",
                result.valid[row],
                expected,
                hint="valid is true up to and with the first end: stop simulating the row there",
            )
            require(
                int(ended[row].sum()) == 1,
                f"row {row} has {int(ended[row].sum())} ends in one chunk longer than its time "
                "limit, expected 1",
                hint="flag an end at its own step only",
            )
            require(
                not result.rewards[row][~expected].any(),
                f"row {row} is rewarded after its end, expected 0 where valid is false",
                hint="skip rows that have ended",
            )
        after = env.chunk_step(self.actions(ROWS))
        require(
            not after.valid.any() and not after.rewards.any(),
            "rows whose episodes have ended go on in the next chunk, expected valid false and "
            "reward 0 until they are reset",
            hint="AutoresetMode.DISABLED: a row is idle after its end",
        )
        require_equal(
            "success of ended rows, one chunk later",
            after.success,
            result.success,
            hint="success is sticky until the row is reset",
        )

    def test_an_end_is_a_termination_or_a_truncation(self) -> None:
        episodes, actions = self.to_the_end()
        whole = extended(actions, self.spec.max_episode_steps)
        result = self.play(self.env(), episodes, whole).result
        both = np.flatnonzero((result.terminated & result.truncated).any(1)).tolist()
        require(
            not both,
            f"rows {both} terminated and were truncated at one step, expected one of the two",
            hint="a termination takes precedence: truncated = limit reached and not terminated",
        )

    def test_the_time_limit_truncates(self) -> None:
        """Rows start at different times, which shows whether each counts its own steps."""
        env = self.env(ROWS, max_episode_steps=SHORT, ignore_terminations=True)
        still = np.repeat(self.rest(), ROWS, axis=0)[:, None].repeat(CHUNK, axis=1)
        first = self.play(env, self.episodes(ROWS), still).result
        hint = "count the steps of each row, and truncate where they reach max_episode_steps"
        require(
            bool(first.valid.all()) and not first.truncated.any(),
            f"an episode ended within {CHUNK} steps under max_episode_steps={SHORT} and "
            "ignore_terminations=true, expected it to go on",
            hint=hint,
        )
        require_equal(
            f"elapsed after {CHUNK} of {SHORT} steps",
            first.observation["elapsed"],
            np.full(ROWS, CHUNK / SHORT),
            atol=ROUNDING,
            hint="elapsed is steps / max_episode_steps",
        )
        second = env.chunk_step(still)
        expected = np.repeat(np.arange(CHUNK)[None] == SHORT - CHUNK - 1, ROWS, axis=0)
        require_equal(f"truncated in steps {CHUNK} to {2 * CHUNK - 1} under max_episode_steps="
                      f"{SHORT}", second.truncated, expected, hint=hint)  # fmt: skip
        require(
            not second.terminated.any(),
            "the time limit set terminated, expected truncated alone",
            hint="a termination says that the future is worth nothing; a time limit does not",
        )

    def test_a_truncated_row_shows_its_final_frame(self) -> None:
        skip_unless(self.spec.renders_final, "spec.renders_final is false")
        skip_unless(self.spec.start_exactness == "bitwise", "frames are not promised to be equal")
        self.repeats_its_course()
        episodes, still = self.episodes(ROWS), self.rest()
        actions = np.repeat(still, ROWS, axis=0)[:, None].repeat(SHORT, axis=1)
        limited = self.env(ROWS, max_episode_steps=SHORT, ignore_terminations=True)
        final = self.play(limited, episodes, actions).result
        on = self.play(self.env(), episodes, actions).result
        skip_unless(not on.terminated.any(), "the episode ends by itself")
        for name, frames in on.observation["cameras"].items():
            require_equal(
                f"the frame of camera {name!r} at the time limit",
                final.observation["cameras"][name],
                frames,
                hint="render it, as its value is bootstrapped from, or say "
                "renders_final=False in the spec",
            )

    def test_success_at_the_time_limit_terminates(self) -> None:
        episode, actions = self.solved()
        result = self.play_solution(episode, actions, max_episode_steps=len(actions))
        require(
            bool(result.terminated[0, -1]) and not result.truncated[0, -1],
            f"success at the last step of the time limit gave terminated="
            f"{bool(result.terminated[0, -1])}, truncated={bool(result.truncated[0, -1])}, "
            "expected true and false",
            hint="a termination takes precedence: truncated = limit reached and not terminated",
        )

    def test_ignored_terminations_leave_the_time_limit(self) -> None:
        episode, actions = self.solved()
        length = len(actions)
        result = self.play_solution(
            episode,
            extended(actions[None], length + 3)[0],
            ignore_terminations=True,
            max_episode_steps=length + 2,
        )
        hint = "under config.ignore_terminations success is noted, and the episode goes on"
        require(not result.terminated.any(), "ignore_terminations=true, yet the episode "
                "terminated, expected it to go on", hint=hint)  # fmt: skip
        require_equal(
            f"truncated under ignore_terminations=true and max_episode_steps={length + 2}",
            result.truncated[0],
            np.arange(length + 3) == length + 1,
            hint=hint,
        )
        require(
            bool(result.success[0]),
            f"success is false {len(actions)} steps into a solved episode, expected it to stay "
            "true",
            hint="success is sticky: whether the episode has succeeded so far",
        )

    def test_success_is_that_of_the_present_episode(self) -> None:
        episode, actions = self.solved()
        env = self.env(1)
        solved = self.play(env, [episode], actions[None]).result
        require(
            bool(solved.success[0]) and bool(solved.terminated[0, -1]),
            "the solution's last step gave no success and no termination",
            hint="success true and terminated at the step that solves the task",
        )
        after = self.play(env, [episode], self.rest()[:, None]).result
        require(not after.success[0], "success is still true after a reset, expected false",
                hint="clear it where the episode starts")  # fmt: skip
