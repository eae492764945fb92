"""Step AdamW over groups of parameters; warm-up, cosine, clipping, refusal of bad steps.

Parameters in less than fp32 have a master copy in fp32 that the optimizer steps: a weight of bf16
near 1 can't move by less than 2^-8, so the steps of a small learning rate would all be lost.
Of a sharded parameter, each rank steps its own shard; gradients are clipped by the global norm.

Knows nothing of losses. Its state is tensors by name and plain numbers, so that a checkpoint
needs no pickle.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rlcore.config.schema import OptimConfig
from rlcore.contracts.errors import CheckpointError
from rlcore.learner import dtensor
from rlcore.run_folder.learner_state import MASTER

SAMPLE = 1024  # entries of a tensor that are looked at to see whether a step moved anything


def learning_rate_factor(config: OptimConfig, step: int) -> float:
    """Factor on the learning rate at optimizer step `step` (from 0).

    Linear warm-up over `lr_warmup_steps` w, ending at 1: (step + 1) / w. Then constant, or a
    cosine to 0 at `total_training_steps` n, which is beyond the warm-up
    (:func:`rlcore.checks.updates.cosine_knows_its_end`): (1 + cos(pi (step - w) / (n - w))) / 2.
    """
    warmup = config.lr_warmup_steps
    if step < warmup:
        return (step + 1) / warmup
    if config.lr_scheduler == "constant":
        return 1.0
    assert config.total_training_steps is not None
    return cosine((step - warmup) / (config.total_training_steps - warmup))


def cosine(share: float) -> float:
    """(1 + cos(pi s)) / 2 of the share s of a schedule that is over; 0 after its end."""
    return 0.5 * (1.0 + math.cos(math.pi * min(1.0, share)))


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

    Attributes:
        lr_factors: what the scheduled rate of a group is multiplied by; 1 where it isn't named.

    Args:
        groups: `{"policy": [...], "value": [...]}`, disjoint lists; "value" has its own rate.
        config: settings.
        rates: constant ones, of further groups.
    """

    def __init__(
        self,
        groups: Mapping[str, Sequence[nn.Parameter]],
        config: OptimConfig,
        rates: Mapping[str, float] | None = None,
    ) -> None:
        self._config, self._rates = config, dict(rates or {})
        self._parameters = {name: list(parameters) for name, parameters in groups.items()}
        every = [one for parameters in self._parameters.values() for one in parameters]
        self._masters = {
            parameter: nn.Parameter(dtensor.part(parameter.detach()).float())
            for parameter in every
            if parameter.element_size() < torch.float32.itemsize
        }
        self._parts = {
            parameter: nn.Parameter(dtensor.part(parameter.detach()))
            for parameter in every
            if dtensor.is_sharded(parameter) and parameter not in self._masters
        }
        self._steps = dict.fromkeys(groups, 0)
        self.lr_factors: Mapping[str, float] = {}
        self.skipped_steps = 0
        self._adam = torch.optim.AdamW(
            [
                {
                    "params": [self._stepped(parameter) for parameter in parameters],
                    "lr": self._base_rate(name),
                    "name": name,
                }
                for name, parameters in self._parameters.items()
                if parameters
            ],
            betas=(config.adam_beta1, config.adam_beta2),
            eps=config.adam_eps,
            weight_decay=config.weight_decay,
        )

    def _base_rate(self, name: str) -> float:
        shared = self._config.value_lr if name == "value" else self._config.lr
        return self._rates.get(name, shared)

    def parameters(self, group: str) -> list[nn.Parameter]:
        """The parameters of one group."""
        return self._parameters[group]

    def learning_rates(self) -> dict[str, float]:
        """The rate of each group at its next step."""
        scheduled = {
            name: self._base_rate(name)
            * learning_rate_factor(self._config, self._steps[name])
            * self.lr_factors.get(name, 1.0)
            for name in self._parameters
            if name not in self._rates
        }
        return scheduled | self._rates

    def _stepped(self, parameter: nn.Parameter) -> nn.Parameter:
        """Return the tensor that AdamW steps: the master copy, if there is one, or the local shard,
        over the same memory."""
        return self._masters.get(parameter, self._parts.get(parameter, parameter))

    def zero_grad(self) -> None:
        self._adam.zero_grad(set_to_none=True)
        for parameter in (*self._masters, *self._parts):
            parameter.grad = None

    def step(self) -> StepReport:
        """Clip, and step every group that has gradients; others keep weights and moments."""
        for parameter, stepped in (*self._masters.items(), *self._parts.items()):
            if parameter.grad is not None:  # one by one, so that no second copy of all is held
                stepped.grad, parameter.grad = dtensor.part(parameter.grad).to(stepped.dtype), None
        groups = {n: [self._stepped(p) for p in ps] for n, ps in self._parameters.items()}
        trained = [p for ps in groups.values() for p in ps if p.grad is not None]
        total = dtensor.total_norm(
            (parameter, stepped.grad)
            for parameters in self._parameters.values()
            for parameter in parameters
            if (stepped := self._stepped(parameter)).grad is not None
        )
        nn.utils.clip_grads_with_norm_(trained, self._config.clip_grad, total)
        norm = float(total)
        rates = self.learning_rates()
        if not math.isfinite(norm):
            self.skipped_steps += 1
            self.zero_grad()
            return StepReport(norm, False)
        for group in self._adam.param_groups:
            group["lr"] = rates[group["name"]]
        self._adam.step()
        with torch.no_grad():
            for parameter, master in self._masters.items():
                if master.grad is not None:
                    dtensor.part(parameter).copy_(master)
        for name, parameters in groups.items():
            self._steps[name] += any(p.grad is not None for p in parameters)
        self.zero_grad()
        return StepReport(norm, True)

    def sample(self) -> list[Tensor]:
        """Copies of the first entries of every trained tensor, at most :data:`SAMPLE` of each."""
        tensors = [self._stepped(p) for ps in self._parameters.values() for p in ps]
        return [tensor.detach().flatten()[:SAMPLE].clone() for tensor in tensors]

    def moved_from(self, before: Sequence[Tensor]) -> bool:
        """Whether any weight differs from an earlier :meth:`sample`."""
        pairs = zip(before, self.sample(), strict=True)
        return not all(torch.equal(then, now) for then, now in pairs)

    def tensors(self) -> Iterator[Tensor]:
        """Return the current gradients, moments and master copies."""
        for parameters in self._parameters.values():
            for parameter in parameters:
                stepped = self._stepped(parameter)
                yield from (one.grad for one in (parameter, stepped) if one.grad is not None)
                yield from self._adam.state.get(stepped, {}).values()
        yield from self._masters.values()

    def state_dict(self) -> dict[str, Any]:
        """`{"tensors": {"GROUP.INDEX.MOMENT": tensor}, "state": json-able}`; copies on the host. A
        master copy is stored like a moment. Of sharded parameters, the rows that are held here."""
        tensors: dict[str, Tensor] = {}
        for name, parameters in self._parameters.items():
            for index, parameter in enumerate(parameters):
                moments = dict(self._adam.state.get(self._stepped(parameter), {}))
                if parameter in self._masters:
                    moments[MASTER] = self._masters[parameter]
                for moment, value in moments.items():
                    if dtensor.written(parameter, value):
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
        """Take up the state that :meth:`state_dict` gave, with all rows of sharded parameters:
        those that are held here are read, tensor by tensor.

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
            if moment == MASTER:  # of a parameter that has one, as the precision is the same
                self._masters[parameter].data.copy_(dtensor.rows_for(tensor, parameter))
                continue
            # AdamW keeps its step count on the host
            device = torch.device("cpu") if moment == "step" else parameter.device
            held = tensor if moment == "step" else dtensor.rows_for(tensor, parameter)
            self._adam.state[self._stepped(parameter)][moment] = held.clone().to(device)
        self._steps = dict(saved["state"]["steps"])
        self.skipped_steps = saved["state"]["skipped_steps"]
