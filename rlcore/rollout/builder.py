"""Build the trajectory of a rollout from decisions and their outcomes.

A trajectory is built in the process of the policy. Decisions arrive in batches whose composition
depends on timing. The trajectory does not depend on it: its columns are in canonical order, and its
decisions are sorted by (column, chunk).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from rlcore.contracts.protocols import Inputs, PolicyOutput
from rlcore.contracts.trajectory import Trajectory
from rlcore.rollout.messages import ChunkOutcome, WaitingRow


@dataclass
class _Decision:
    """One decision of one column.

    Attributes:
        waiting: the row for which the decision was made.
        batch: index of the decision batch that has its tensors.
        row: row of the decision within that batch.
        outcome: results of its actions by name (:meth:`ChunkOutcome.of_row`).
        bootstrap: values `[V]` of the observation after it; None: not requested.
    """

    waiting: WaitingRow
    batch: int
    row: int
    outcome: dict[str, np.ndarray] = field(default_factory=dict)
    bootstrap: torch.Tensor | None = None


@dataclass
class _Batch:
    """Tensors of one decision batch, on the host."""

    inputs: dict[str, torch.Tensor]
    replay: dict[str, torch.Tensor]
    actions: torch.Tensor
    logprobs: torch.Tensor
    values: torch.Tensor


@dataclass
class TrajectoryBuilder:
    """Builder of the trajectory of one rollout.

    Args:
        version: number of updates done before the rollout.
    """

    version: int
    _batches: list[_Batch] = field(default_factory=list)
    _columns: dict[int, list[_Decision]] = field(default_factory=dict)

    def add_decisions(
        self, rows: Sequence[WaitingRow], inputs: Inputs, output: PolicyOutput
    ) -> None:
        """Add the decisions of R rows; `inputs` and `output` have R rows."""
        self._batches.append(
            _Batch(
                inputs={name: _host(array) for name, array in inputs.items()},
                replay={name: _host(tensor) for name, tensor in output.replay.items()},
                actions=_host(output.actions),
                logprobs=_host(output.logprobs),
                values=_host(output.values),
            )
        )
        for index, row in enumerate(rows):
            decision = _Decision(row, len(self._batches) - 1, index)
            self._columns.setdefault(row.column, []).append(decision)

    def add_outcome(self, outcome: ChunkOutcome) -> None:
        """Set the outcome of the last decision of each column in `outcome`."""
        for row, column in enumerate(outcome.columns):
            self._columns[column][-1].outcome = outcome.of_row(row)

    def add_bootstrap(self, columns: Sequence[int], values: torch.Tensor) -> None:
        """Set the values `[R, V]` after the last decision of each of R columns."""
        for row, column in enumerate(columns):
            self._columns[column][-1].bootstrap = _host(values[row])

    def add_final_decisions(
        self, rows: Sequence[WaitingRow], inputs: Inputs, output: PolicyOutput
    ) -> None:
        """Add decisions at the final observations of R rows, which no step executes."""
        self.add_decisions(rows, inputs, output)
        steps = (len(rows), output.actions.shape[1])
        never = np.zeros(steps, dtype=bool)
        self.add_outcome(
            ChunkOutcome(
                columns=[row.column for row in rows],
                rewards=np.zeros(steps, dtype=np.float32),
                valid=never,
                terminated=never,
                truncated=never,
                success=never[:, 0],
            )
        )

    def columns(self) -> list[int]:
        """Return the numbers of the columns added so far, in the order of :meth:`build`."""
        return sorted(self._columns)

    def build(self) -> Trajectory:
        """Return the trajectory of all columns added so far."""
        order = self.columns()
        flat = [decision for column in order for decision in self._columns[column]]
        chunks = max(len(self._columns[column]) for column in order)
        cell_t = [t for column in order for t in range(len(self._columns[column]))]
        cell_n = [n for n, column in enumerate(order) for _ in self._columns[column]]
        cells = (torch.tensor(cell_t), torch.tensor(cell_n))
        starts = np.cumsum([0, *(len(batch.logprobs) for batch in self._batches)])
        pick = torch.tensor([int(starts[d.batch]) + d.row for d in flat])

        def dense(rows: torch.Tensor) -> torch.Tensor:
            out = torch.zeros((chunks, len(order), *rows.shape[1:]), dtype=rows.dtype)
            out[cells] = rows
            return out

        def stack(name: str) -> torch.Tensor:
            return dense(torch.from_numpy(np.stack([d.outcome[name] for d in flat])))

        def number(values: Sequence[int]) -> torch.Tensor:
            return dense(torch.tensor(values, dtype=torch.int64))

        values = torch.cat([batch.values for batch in self._batches])[pick]
        zero = torch.zeros_like(values[0])
        sample_index = torch.full((chunks, len(order)), -1, dtype=torch.int64)
        sample_index[cells] = torch.arange(len(flat))
        return Trajectory(
            rewards=stack("rewards").float(),
            valid=stack("valid"),
            terminated=stack("terminated"),
            truncated=stack("truncated"),
            actions=dense(torch.cat([batch.actions for batch in self._batches])[pick]),
            logprobs=dense(torch.cat([batch.logprobs for batch in self._batches])[pick]),
            values=dense(values),
            bootstrap_values=dense(
                torch.stack([d.bootstrap if d.bootstrap is not None else zero for d in flat])
            ),
            task=number([d.waiting.episode.task for d in flat]),
            trial=number([d.waiting.episode.trial for d in flat]),
            replica=number([d.waiting.episode.replica for d in flat]),
            group=number([d.waiting.episode.group for d in flat]),
            episode=number([d.waiting.episode_number for d in flat]),
            policy_version=number([self.version] * len(flat)),
            success=stack("success"),
            sample_index=sample_index,
            inputs=_gather([batch.inputs for batch in self._batches], pick),
            replay=_gather([batch.replay for batch in self._batches], pick),
        )


def _host(array: np.ndarray | torch.Tensor) -> torch.Tensor:
    """Return a tensor on the CPU; a numpy array is copied, so that changes do not reach it."""
    if isinstance(array, torch.Tensor):
        return array.detach().cpu()
    return torch.from_numpy(np.array(array))


def _gather(batches: list[dict[str, torch.Tensor]], pick: torch.Tensor) -> dict[str, torch.Tensor]:
    return {name: torch.cat([batch[name] for batch in batches])[pick] for name in batches[0]}
