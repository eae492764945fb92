"""PPO with a loss that fails while a file says so: equal to PPO as long as there is no file."""

from __future__ import annotations

import os
from pathlib import Path

from rlcore_algo_ppo.ppo import PPO
from rlcore_policy_gradient.minibatch import Minibatch
from torch import Tensor

from rlcore.contracts.metric import Metric
from rlcore.contracts.protocols import Evaluation

ORDERS = "RLCORE_FAULTS_ORDERS"  # variable that names the file


class Faulty(PPO):
    """See :class:`PPO`. The file holds `nan` (the loss is NaN) or `raise` (it raises).

    Raises:
        ArithmeticError: on command.
    """

    def loss(self, now: Evaluation, batch: Minibatch) -> tuple[Tensor, dict[str, Metric]]:
        """PPO's loss, unless it is told otherwise."""
        loss, parts = super().loss(now, batch)
        orders = Path(os.environ[ORDERS])
        order = orders.read_text(encoding="utf-8") if orders.is_file() else None
        if order == "raise":
            raise ArithmeticError("the loss was told to fail")
        return (loss * float("nan") if order == "nan" else loss), parts
