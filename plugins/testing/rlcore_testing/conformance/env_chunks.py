"""Check that a chunk equals its single steps, and that settings of actions and rewards hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlcore.contracts.protocols import Env
from rlcore.validation.env import chunk_fault
from rlcore.validation.faults import array_fault
from rlcore_testing.conformance.base import require_equal, require_valid, skip_unless
from rlcore_testing.conformance.env_subject import (
    ALL_ROWS,
    CHUNK,
    ROUNDING,
    ROWS,
    EnvSubject,
    arrays_of,
)


class ChunkChecks(EnvSubject):
    """Checks of chunks of steps."""

    def test_a_run_accepts_what_it_hands_out(self) -> None:
        """Results pass the validation of env workers, from the start of episodes to their end."""
        episodes, actions = self.to_the_end()
        env = self.env()
        running = ALL_ROWS
        solved = ~ALL_ROWS
        env.reset(options={"episodes": episodes})
        for start in range(0, actions.shape[1], CHUNK):
            result = env.chunk_step(actions[:, start : start + CHUNK])
            require_valid(
                f"the chunk after step {start}",
                chunk_fault(self.spec, ROWS, CHUNK, result, running, solved)
                # a run converts them
                or array_fault("rewards", result.rewards, np.float32, (ROWS, CHUNK))
                or array_fault("success", result.success, np.bool_, (ROWS,)),
            )
            solved = result.success
            running = running & ~(result.terminated | result.truncated).any(axis=1)

    def test_a_chunk_equals_its_steps_one_by_one(self) -> None:
        """Compares the last two chunks; if a solution is known, one episode ends within them."""
        skip_unless(not self.spec.whole_chunks, "spec.whole_chunks: a chunk is one motion")
        self.skip_unless_deterministic()
        episodes, actions = self.to_the_end()
        chunked = self.env()
        stepped = self.env(instance=1)
        first = max(actions.shape[1] - 2 * CHUNK, 0)
        for env in (chunked, stepped):
            env.reset(options={"episodes": episodes})
            if first:
                env.chunk_step(actions[:, :first])
        for start in range(first, actions.shape[1], CHUNK):
            self._require_equal_chunk(chunked, stepped, actions[:, start : start + CHUNK], start)

    def _require_equal_chunk(
        self, chunked: Env, stepped: Env, chunk: np.ndarray, start: int
    ) -> None:
        hint = "let step and chunk_step share one code path"
        result = chunked.chunk_step(chunk)
        whole = {
            "rewards": result.rewards,
            "terminated": result.terminated,
            "truncated": result.truncated,
        }
        for c in range(CHUNK):
            observation, *numbers, _ = stepped.step(chunk[:, c])
            for (name, expected), got in zip(whole.items(), numbers, strict=True):
                label = f"{name} of step {start + c}, played alone"
                self.require_close(label, got, expected[:, c], hint)
        drawn = ~result.terminated.any(1) & result.valid[:, 0]
        if not self.spec.renders_final:
            drawn &= ~result.truncated.any(1)
        expected_arrays = arrays_of(result.observation)
        for name, array in arrays_of(observation).items():
            rows = drawn if name.startswith("camera") else slice(None)
            label = f"{name} after {start + CHUNK} steps, the last {CHUNK} played one by one"
            self.require_close(label, array[rows], expected_arrays[name][rows], hint)

    def test_actions_beyond_the_range_are_clipped(self) -> None:
        self.skip_unless_deterministic()
        actions = self.actions(ROWS)
        low, high = self.action_range()
        wild = np.where(actions > (low + high) / 2, high + 2 * (high - low), low - (high - low))
        inside, outside = (
            self.play(self.env(), self.episodes(ROWS), actions_played.astype(np.float32)).result
            for actions_played in (np.clip(wild, low, high), wild)
        )
        self.require_close(
            "states after actions beyond the range",
            outside.observation["states"],
            inside.observation["states"],
            "clip actions to the range of spec.actions: policies explore beyond it",
        )

    def test_rewards_are_scaled_by_reward_coef(self) -> None:
        plain, doubled = (self._rewards(reward_coef=coef) for coef in (1.0, 2.0))
        hint = "multiply rewards by config.reward_coef"
        self._require_rewards("reward_coef=2", doubled, 2 * plain, hint)

    def test_relative_rewards_are_differences(self) -> None:
        plain, relative = (self._rewards(use_rel_reward=on) for on in (False, True))
        hint = "d_t = r_t - r_{t-1}, with r_{-1} = 0 at the start of the episode"
        self._require_rewards("use_rel_reward=true", relative, np.diff(plain, prepend=0.0), hint)

    def _rewards(self, **changes: Any) -> np.ndarray:
        """Return the rewards `[L]` of one episode, played in chunks."""
        self.skip_unless_deterministic()
        episode, actions = self.solution() or (self.episodes(1)[0], self.actions(1)[0])
        env = self.env(1, **changes)
        env.reset(options={"episodes": [episode]})
        chunks = range(0, len(actions), CHUNK)
        parts = [env.chunk_step(actions[None, c : c + CHUNK]).rewards[0] for c in chunks]
        return np.concatenate(parts)

    def _require_rewards(
        self, setting: str, got: np.ndarray, expected: np.ndarray, hint: str
    ) -> None:
        atol = max(self.tolerance, ROUNDING * max(1.0, float(np.abs(expected).max())))
        require_equal(f"rewards under {setting}", got, expected, hint, atol=atol)
