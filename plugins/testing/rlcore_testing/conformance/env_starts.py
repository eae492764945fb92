"""Check that (task, trial) alone determines the start of an episode.

The steps after a start are compared, too: the same actions must give the same rewards and
observations. This finds hidden state that a reset does not restore.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlcore.contracts.protocols import Env
from rlcore.contracts.specs import Episode
from rlcore_testing.conformance.base import skip_unless
from rlcore_testing.conformance.env_subject import CHUNK, ROWS, EnvSubject, Play, arrays_of


class StartChecks(EnvSubject):
    """Checks of the starts of episodes."""

    def test_a_start_repeats_after_other_episodes(self) -> None:
        self.reference()
        self.play(self.env(), self.episodes(ROWS, first=ROWS), self.actions(ROWS, key=1))
        self._require_reference("played again in its row", self.env(), range(ROWS))

    def test_a_start_is_the_same_in_another_row(self) -> None:
        self._require_reference("played in another row", self.env(), [*range(1, ROWS), 0])

    def test_a_start_is_the_same_in_a_second_instance(self) -> None:
        self._require_reference("played in a second instance", self.env(instance=1), range(ROWS))

    def test_a_start_is_the_same_with_another_number_of_rows(self) -> None:
        for number in range(ROWS):
            self._require_reference("played with num_envs=1", self.env(1), [number])

    def test_replicas_share_their_start(self) -> None:
        """Group-relative advantages rely on it."""
        replica = {"replica": 7, "group": 3}
        self._require_reference("as another replica", self.env(), range(ROWS), **replica)

    def test_trials_have_different_starts(self) -> None:
        trials = self.spec.train_trials[:ROWS]
        skip_unless(len(trials) > 1, "there is one trial")
        episodes = [Episode(0, trials[i % len(trials)]) for i in range(ROWS)]
        start = arrays_of(self.env().reset(options={"episodes": episodes})[0])
        assert any((array != array[0]).any() for array in start.values()), (
            f"trials {list(trials)} of task {self.spec.tasks[0]!r} start alike, expected different "
            "starts\n  hint: the trial number must choose the start, e.g. as the seed of its "
            "generator"
        )

    def test_a_reset_without_episodes_starts_every_row(self) -> None:
        env = self.env()
        first, _ = env.reset(seed=5)
        valid = env.chunk_step(self.actions(ROWS)).valid[:, 0]
        assert valid.all(), (
            f"after reset(seed=5) valid[:, 0] is {valid.tolist()}, expected all true"
            "\n  hint: without options all rows start episodes of the env's choice"
        )
        again, _ = env.reset(seed=5)
        hint = "choose the episodes by the seed alone"
        self.require_same("of a second reset(seed=5)", arrays_of(again), arrays_of(first), hint)

    def reference(self) -> Play:
        """Return the first episodes and actions as played by a new env, before any others."""

        def play() -> Play:
            env = self.make(self.config(), ROWS)
            try:
                return self.play(env, self.episodes(ROWS), self.actions(ROWS))
            finally:
                env.close()

        return self.shared("reference", play)

    def _require_reference(self, how: str, env: Env, order: Sequence[int], **address: int) -> None:
        """Require that an env plays episodes and actions of :meth:`reference` in the same way.

        Args:
            how: what differs, for messages.
            order: for each row of the env, the number of the episode and of the actions.
            address: fields of the episodes' addresses that differ.
        """
        expected = self.reference()
        episodes = [self.episodes(ROWS)[i]._replace(**address) for i in order]
        play = self.play(env, episodes, self.actions(ROWS)[list(order)])
        for row, (i, episode) in enumerate(zip(order, episodes, strict=True)):
            start = f"of the start of (task {episode.task}, trial {episode.trial}), {how}"
            self.require_same(
                start,
                arrays_of(play.start, row),
                arrays_of(expected.start, i),
                "(task, trial) alone must fix the start: key its generator by them, and reset all "
                "that an episode changes",
            )
            if not self.spec.deterministic:
                continue
            arrays = arrays_of(expected.result, i)
            if expected.result.terminated[i].any():  # its pixels are unspecified
                arrays = {k: array for k, array in arrays.items() if not k.startswith("camera")}
            self.require_same(
                f"after {CHUNK} equal actions {start}",
                arrays_of(play.result, row),  # an info that none of its rows has is left out
                arrays,
                "something that the observation does not show differs at the start, or the "
                "simulation is random: key its noise by the episode; or say deterministic=False "
                "in the spec",
            )
