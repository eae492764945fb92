"""Check that rows are independent (masked resets, videos), and the memory and closing of an env."""

from __future__ import annotations

import gc
from collections import Counter
from time import monotonic

import numpy as np
import psutil

from rlcore.validation.env import films_fault
from rlcore_testing.conformance.base import HEAVY, require_light, require_valid, skip_unless
from rlcore_testing.conformance.env_subject import ROWS, EnvSubject, arrays_of

LEAK = 2**16  # bytes an episode; what allocators and caches keep is less, over a hundred of them
# halves of the episodes in a row over which memory grows, where it leaks; a renderer's caches were
# seen to grow over three
HALVES = 5


class RowChecks(EnvSubject):
    """Checks of resets, videos, memory and closing."""

    def test_only_masked_rows_are_reset(self) -> None:
        env = self.env()
        undisturbed = self.env(instance=1)
        others = self.episodes(ROWS, first=ROWS)
        first_chunk, _ = (
            self.play(env, self.episodes(ROWS), self.actions(ROWS)).result
            for env in (env, undisturbed)
        )
        mask = np.arange(ROWS) == 1
        mixed, _ = env.reset(options={"reset_mask": mask, "episodes": others})
        fresh = self.play(self.env(1), [others[1]], self.actions(1)).start
        hint = 'reset rows where options["reset_mask"] is true, and leave the others as they are'
        label = "of the row that was reset"
        self.require_same(label, arrays_of(mixed, 1), arrays_of(fresh, 0), hint)
        ended = first_chunk.terminated.any(1)  # whose pixels are unspecified
        before = arrays_of(first_chunk.observation)
        for name, array in arrays_of(mixed).items():
            rows = ~mask & ~(ended & name.startswith("camera"))
            label = f"{name} of rows that were not reset"
            self.require_close(label, array[rows], before[name][rows], hint)
        if self.spec.deterministic:
            actions = self.actions(ROWS, key=1)
            numbers, expected = (
                {
                    "rewards": result.rewards[~mask],
                    "terminated": result.terminated[~mask],
                    "truncated": result.truncated[~mask],
                    "valid": result.valid[~mask],
                }
                for result in (env.chunk_step(actions), undisturbed.chunk_step(actions))
            )
            label = "of rows that were not reset, in the chunk after the reset"
            self.require_same(label, numbers, expected, hint)

    def test_rows_never_reset_are_idle(self) -> None:
        env = self.env(2, instance=2)
        env.reset(options={"reset_mask": np.array([True, False]), "episodes": self.episodes(2)})
        result = env.chunk_step(self.actions(2))
        assert result.valid[0, 0] and not result.valid[1].any() and not result.rewards[1].any(), (
            f"valid is {result.valid.tolist()} where only row 0 was ever reset, expected row 1 to "
            "be false throughout\n  hint: a row without an episode is not simulated"
        )

    def test_recorded_rows_keep_every_frame(self) -> None:
        env = self.env()
        env.recorded()
        env.record([1])
        valid = self.play(env, self.episodes(ROWS), self.actions(ROWS)).result.valid
        films = env.recorded()
        steps = int(valid[1].sum())
        counts = {row: len(frames) for row, frames in films.items()}
        hint = "keep a frame after each step of the rows named, until record is called again"
        assert not self.spec.cameras or counts in ({1: steps}, {1: steps + 1}), (
            f"after record([1]) and {steps} steps recorded() has frames {counts} by row, expected "
            f"{{1: {steps}}}, or one more for the reset\n  hint: {hint}"
        )
        require_valid("recorded", films_fault(self.spec, ROWS, films))
        assert env.recorded() == {}, (
            "recorded() gives frames twice, expected {} the second time\n  hint: clear what was "
            "taken"
        )
        env.record([])
        env.chunk_step(self.actions(ROWS))
        assert env.recorded() == {}, (
            f"frames are kept after record([]), expected none\n  hint: {hint}"
        )

    def test_memory_does_not_grow_with_episodes(self) -> None:
        """Measures this process and those below it.

        After the first half of the episodes the other half is played, again where memory grew: what
        leaks grows each time, and what an allocator or a cache takes once does not. Over fewer
        episodes than asked for, it must grow by no more than it may over all.
        """
        most = self.memory_episodes // (2 * ROWS)
        skip_unless(most > 0, "memory_episodes is 0; rlcore check plays 200")
        rounds = 0
        began = monotonic()
        while not rounds or (rounds < most and monotonic() - began < self.memory_seconds / 2):
            self._play_round(rounds)
            rounds += 1
        for half in range(1, 1 + HALVES):
            first = _resident_bytes()
            for number in range(half * rounds, (half + 1) * rounds):
                self._play_round(number)
            # summed over growing processes, so that one that shrinks or ends cannot hide a leak
            grown = sum(max(size - first[pid], 0) for pid, size in _resident_bytes().items())
            if grown < LEAK * most * ROWS:
                return
        raise AssertionError(
            f"memory grew by {grown / (rounds * ROWS) / 1024:.0f} KiB an episode over "
            f"{rounds * ROWS} episodes, {HALVES} times in a row, expected it to stay"
            "\n  hint: let go of frames, infos and scenes at a reset; bound what is cached"
        )

    def _play_round(self, number: int) -> None:
        """Play one chunk of a new episode in each row."""
        episodes = self.episodes(ROWS, first=number * ROWS)
        self.play(self.env(), episodes, self.actions(ROWS, key=number))

    def test_closing_twice_is_safe(self) -> None:
        env = self.make(self.config(), 1)
        env.close()
        env.close()

    def test_simulating_loads_no_tensor_library(self) -> None:
        """An env worker needs the simulator only, not the libraries of models."""
        code = (
            "from rlcore.contracts.component import *\n"  # whatever classes the spec's repr names
            "from rlcore_testing.conformance.env import EnvConformance\n"
            f"component = {self.component()!r}\n"
            f"facts = {{'settings': {dict(self.settings)!r}, 'component': lambda self: component}}"
            "\ncheck = type('Check', (EnvConformance,), facts)()\n"
            "env = check.make(check.config(), 1)\n"
            "env.reset(seed=0)\n"
            "env.close()"
        )
        require_light(
            code,
            "making the env and resetting it",
            "drop the import; if the simulator itself needs it, say so in simulator_loads",
            sorted({*HEAVY} - {"gymnasium", *self.simulator_loads}),
        )


def _resident_bytes() -> Counter[int]:
    """Return the private resident memory in bytes of this process and its descendants, by pid.

    Shared pages, which are mostly those of library files, are not counted: Linux evicts them and
    reads them again at any time.
    """
    gc.collect()
    own = psutil.Process()
    sizes = {process.pid: process.memory_info() for process in (own, *own.children(recursive=True))}
    return Counter({pid: size.rss - size._asdict().get("shared", 0) for pid, size in sizes.items()})
