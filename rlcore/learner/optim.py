"""AdamW over two groups of parameters, with warm-up, cosine, clipping and refusal of bad steps.

Knows nothing of losses. Its state is tensors by name and plain numbers, so that a checkpoint
needs no pickle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rlcore.config.schema import OptimConfig
from rlcore.errors import CheckpointError, ConfigError


def learning_rate_factor(config: OptimConfig, step: int) -> float:
    """Factor on the learning rate at optimizer step `step` (from 0).

    Linear warm-up over `lr_warmup_steps` w, ending at 1: (step + 1) / w. Then constant, or a
    cosine to 0 at `total_training_steps` n: (1 + cos(pi (step - w) / (n - w))) / 2.

    Raises:
        ConfigError: a cosine without an end beyond the warm-up.
    """
    warmup = config.lr_warmup_steps
    if step < warmup:
        return (step + 1) / warmup
    if config.lr_scheduler == "constant":
        return 1.0
    total = config.total_training_steps
    if total is None or total <= warmup:
        raise ConfigError(
            f"actor.optim.lr_scheduler=cosine needs total_training_steps beyond the warm-up of "
            f"{warmup} steps, got {total}",
            hint="set actor.optim.total_training_steps",
        )
    progress = min(1.0, (step - warmup) / (total - warmup))
    return 0.5 * (1.0 + math.cos(math.pi * progress))


@dataclass(frozen=True)
class StepReport:
    """What one optimizer step did.

    Attributes:
        grad_norm: norm over all trained parameters before clipping.
        applied: false if the gradient was not finite and the step was left out.
    """

    grad_norm: float
    applied: bool


class PolicyOptimizer:
    """Optimizer of a policy's parameter groups.

    Each group counts its own steps: a policy that waits for its critic's warm-up begins its own
    warm-up when its turn comes.

    Args:
        groups: `{"policy": [...], "value": [...]}`, disjoint lists; "value" has its own rate.
        config: settings.
    """

    def __init__(self, groups: Mapping[str, Sequence[nn.Parameter]], config: OptimConfig) -> None:
        self._config = config
        self._parameters = {name: list(parameters) for name, parameters in groups.items()}
        self._steps = dict.fromkeys(groups, 0)
        self.skipped_steps = 0
        self._adam = torch.optim.AdamW(
            [
                {"params": parameters, "lr": self._base_rate(name), "name": name}
                for name, parameters in self._parameters.items()
                if parameters
            ],
            betas=(config.adam_beta1, config.adam_beta2),
            eps=config.adam_eps,
            weight_decay=config.weight_decay,
        )

    def _base_rate(self, name: str) -> float:
        return self._config.value_lr if name == "value" else self._config.lr

    def parameters(self, group: str) -> list[nn.Parameter]:
        """The parameters of one group."""
        return self._parameters[group]

    def learning_rates(self) -> dict[str, float]:
        """The rate of each group at its next step."""
        return {
            name: self._base_rate(name) * learning_rate_factor(self._config, self._steps[name])
            for name in self._parameters
        }

    def zero_grad(self) -> None:
        self._adam.zero_grad(set_to_none=True)

    def step(self) -> StepReport:
        """Clip, and step every group that has gradients; others keep weights and moments."""
        trained = [p for ps in self._parameters.values() for p in ps if p.grad is not None]
        norm = float(nn.utils.clip_grad_norm_(trained, self._config.clip_grad))
        rates = self.learning_rates()
        if not math.isfinite(norm):
            self.skipped_steps += 1
            self.zero_grad()
            return StepReport(norm, False)
        for group in self._adam.param_groups:
            group["lr"] = rates[group["name"]]
        self._adam.step()
        for name, parameters in self._parameters.items():
            self._steps[name] += any(p.grad is not None for p in parameters)
        self.zero_grad()
        return StepReport(norm, True)

    def state_dict(self) -> dict[str, Any]:
        """`{"tensors": {"GROUP.INDEX.MOMENT": tensor}, "state": json-able}`; copies on the host."""
        tensors: dict[str, Tensor] = {}
        for name, parameters in self._parameters.items():
            for index, parameter in enumerate(parameters):
                for moment, value in self._adam.state.get(parameter, {}).items():
                    tensors[f"{name}.{index}.{moment}"] = value.detach().cpu().clone()
        return {
            "tensors": tensors,
            "state": {
                "steps": dict(self._steps),
                "skipped_steps": self.skipped_steps,
                "sizes": {name: len(ps) for name, ps in self._parameters.items()},
            },
        }

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Take up the state that :meth:`state_dict` gave.

        Raises:
            CheckpointError: it belongs to other parameters.
        """
        sizes = {name: len(parameters) for name, parameters in self._parameters.items()}
        if saved["state"]["sizes"] != sizes:
            raise CheckpointError(
                f"the optimizer state is for parameter groups {saved['state']['sizes']}, "
                f"this policy has {sizes}"
            )
        for key, tensor in saved["tensors"].items():
            name, index, moment = key.split(".")
            parameter = self._parameters[name][int(index)]
            if moment != "step" and tensor.shape != parameter.shape:
                raise CheckpointError(
                    f"optimizer state {key} has shape {tuple(tensor.shape)}, "
                    f"its parameter has {tuple(parameter.shape)}"
                )
            # AdamW keeps its step count on the host
            device = torch.device("cpu") if moment == "step" else parameter.device
            self._adam.state[parameter][moment] = tensor.clone().to(device)
        self._steps = dict(saved["state"]["steps"])
        self.skipped_steps = saved["state"]["skipped_steps"]
