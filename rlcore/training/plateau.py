"""Train supervised until success on validation starts stops rising (`sft.until=plateau`).

Training goes in rounds. The first makes `sft.max_steps` steps, each later one as many as all before
it together, so that the steps double. After each round the policy plays the validation starts,
without exploration. The rule that ends training is :func:`has_plateaued`.

A round begins with the saved weights of the round before and a new optimizer, as in the warm
restarts of Loshchilov and Hutter (ICLR 2017, arXiv:1608.03983). So a killed run goes on from its
last complete round, or a later saved state, to the same weights, bit for bit:

    sft_rounds/000200/
      policy/         the sealed policy; only of the best round and of the latest
      history.json    the training of this round
      success.json    how its policy played (:class:`Round`); absent until it has played
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import dropwhile, pairwise
from pathlib import Path
from typing import Any

from rlcore.checks.further_sides import PLATEAU
from rlcore.contracts.errors import CheckpointError
from rlcore.files.atomic import new_folder, remove_folder, write_text
from rlcore.files.damaged_files import read_as, read_mapping
from rlcore.files.digests import seal
from rlcore.runs.folder import SUPERVISED_POLICY
from rlcore.runs.statistics import success_rate
from rlcore.runs.tables import success_by_start
from rlcore.training.evaluate import play_evaluation
from rlcore.training.session import Session, protocol
from rlcore.training.supervised_phase import load_policy, log_losses, train_supervised

MIN_GAIN = 0.03
"""Least rise of the success rate for which a doubling of the steps counts."""
HISTORY = "history.json"
SUCCESS = "success.json"
SUMMED = ("steps", "skipped_steps", "zero_gradient_steps", "seconds", "waited")
"""Numbers of a history that add up over rounds."""


@dataclass(frozen=True)
class Round:
    """Success on the validation starts after a round, each start played once or more.

    Attributes:
        steps: optimizer steps since the beginning.
        rate, n, lo, hi: success rate over n episodes and its 95% interval.
        protocol: digest of the evaluation's protocol; only equal ones can be compared.
        metrics: finite metrics of the evaluation, `eval/plateau/*`.
    """

    steps: int
    rate: float
    n: int
    lo: float
    hi: float
    protocol: str
    metrics: dict[str, float]


def has_plateaued(rates: Sequence[float]) -> bool:
    """Return whether the last two doublings gained less than :data:`MIN_GAIN` each.

    Doublings before the first success don't count: a policy comes nearer to the goal, and its loss
    falls, long before it succeeds.

    Args:
        rates: success rate after each round; a doubling's gain is the difference to the rate
            before it.
    """
    since = [*dropwhile(lambda rate: rate == 0, rates)]  # the first success
    gains = [round(after - before, 9) for before, after in pairwise(since)]  # 0.31 - 0.28 < 0.03
    return len(gains) >= 2 and max(gains[-2:]) < MIN_GAIN


def best_round(rates: Sequence[float]) -> int:
    """Return the index of the highest success rate, the first of equals."""
    return max(range(len(rates)), key=lambda index: (rates[index], -index))


def train_to_plateau(session: Session, data: str | Path) -> tuple[dict[str, Any], Path]:
    """Make rounds until success stops rising, beginning with those that are on the disk.

    Returns:
        The history of all rounds together; and the folder of the best round's policy.

    Raises:
        CheckpointError: a stored round is damaged, or was played under other settings.
        HookError: a hook of a plugin failed; the round is complete and stored.
    """
    sft = session.config.sft
    rounds = _Rounds(session, data)
    while True:
        rounds.add()
        rates = [result.rate for result in rounds.made]
        reached = has_plateaued(rates)
        if reached or len(rates) > sft.max_doublings:
            break
    best = rounds.made[best_round(rates)]
    if reached:
        stopped = f"two doublings gained less than {MIN_GAIN:g} each (sft.until=plateau)"
    else:
        stopped = f"sft.max_doublings={sft.max_doublings}"
        happened = "success had stopped rising" if any(rates) else "any validation start was solved"
        session.progress.line(
            f"warning: {stopped} ended supervised training before {happened}: the starting policy "
            "is not at its plateau"
        )
    session.progress.line(f"sft: the starting policy is the one after {best.steps} steps")
    history = {
        **_merged(rounds.histories),
        "stopped": stopped,
        "rounds": [asdict(result) for result in rounds.made],
        "kept_steps": best.steps,
        "plateau_reached": reached,
    }
    return history, rounds.folder(best.steps) / SUPERVISED_POLICY


class _Rounds:
    """The rounds of a run: those that are on the disk are read, the others are made.

    Attributes:
        made: the rounds so far, with the success after each.
        histories: training of each round so far.
    """

    def __init__(self, session: Session, data: str | Path) -> None:
        self._session = session
        self._data = data
        self._held: Path | None = None  # folder of the round whose policy the workers have
        self.made: list[Round] = []
        self.histories: list[dict[str, Any]] = []

    def folder(self, steps: int) -> Path:
        """Return the folder of the round that ended after `steps` steps."""
        return self._session.folder.sft_rounds / f"{steps:06d}"

    def add(self) -> None:
        """Train and play the next round, as far as it is not on the disk."""
        made = self.made[-1].steps if self.made else 0
        more = made or self._session.config.sft.max_steps
        folder = self.folder(made + more)
        if folder.is_dir():
            history = read_mapping(folder / HISTORY)
            log_losses(self._session, "sft", history)
        else:
            history = self._train(folder, made, more)
        self.histories.append(history)
        if not (folder / SUCCESS).is_file():
            self._play(folder, made + more)
        result = read_as(Round, folder / SUCCESS)
        self._require_same_protocol(folder, result)
        self._report(result)
        self.made.append(result)
        self._remove_policies()

    def _train(self, folder: Path, made: int, more: int) -> dict[str, Any]:
        session = self._session
        if made:
            self._hold(self.folder(made))
        sft = replace(session.config.sft, max_steps=more)
        history = train_supervised(session, self._data, sft, made=made)
        with new_folder(folder) as partial:
            policy = partial / SUPERVISED_POLICY
            policy.mkdir()
            session.group.save(policy)
            seal(policy, session.config.runner.seed)
            (partial / HISTORY).write_text(json.dumps(history) + "\n", encoding="utf-8")
        remove_folder(session.folder.sft_steps)
        return history

    def _play(self, folder: Path, steps: int) -> None:
        self._hold(folder)
        results, metrics = play_evaluation(self._session, f"{PLATEAU}/steps_{steps:06d}", PLATEAU)
        rate, n, lo, hi = success_rate([*success_by_start(results).values()])
        finite = {name: value for name, value in metrics.items() if math.isfinite(value)}
        result = Round(steps, rate, n, lo, hi, results[0].protocol, finite)
        write_text(folder / SUCCESS, json.dumps(asdict(result), indent=1) + "\n")
        self._session.hooks.check()

    def _hold(self, folder: Path) -> None:
        """Give the workers the policy of a round, unless they have it."""
        if self._held != folder:
            load_policy(self._session, folder / SUPERVISED_POLICY)
            self._held = folder

    def _require_same_protocol(self, folder: Path, result: Round) -> None:
        current = protocol(self._session.assembly.for_evaluation(PLATEAU)).digest
        if result.protocol != current:
            raise CheckpointError(
                f"{folder} was played under other settings of env.eval, or by another version of "
                "the simulator, so success after it can't be compared with that of a later round",
                hint="set them as they were, or remove "
                f"{self._session.folder.sft_rounds} and sft_steps beside it to repeat the "
                "supervised training",
            )

    def _report(self, result: Round) -> None:
        gain = f" ({result.rate - self.made[-1].rate:+.3f})" if self.made else ""
        self._session.progress.line(
            f"sft: {result.steps} steps solve {result.rate:.3f}{gain} [{result.lo:.3f}, "
            f"{result.hi:.3f}] in {result.n} episodes on validation starts"
        )

    def _remove_policies(self) -> None:
        """Remove the policies that are neither the best nor the latest."""
        best = self.made[best_round([result.rate for result in self.made])]
        for result in self.made[:-1]:
            if result is not best:
                remove_folder(self.folder(result.steps) / SUPERVISED_POLICY)


def _merged(histories: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the history of all rounds as one.

    Counts and seconds are added, lists of losses are joined, and all else is the last round's.
    """
    merged = dict(histories[-1])
    for name in SUMMED:
        merged[name] = sum(history[name] for history in histories)
    for name in ("train_loss", "val_loss"):
        merged[name] = [point for history in histories for point in history[name]]
    if merged["val_loss"]:
        merged["best_step"] = min(merged["val_loss"], key=lambda point: point[1])[0]
    return merged
