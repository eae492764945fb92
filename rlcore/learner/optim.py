"""Step AdamW over groups of parameters; warm-up, cosine, clipping, refusal of bad steps.

The policy and its value head have the settings of `actor.optim`, and are clipped by their common
norm. Each network of an algorithm has settings of its own, and is clipped by its own norm.

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
from rlcore.contracts.specs import NetworkNeeds
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
        grad_norms: norms before clipping, of what is clipped together
            (:meth:`PolicyOptimizer.clipped_with`), where there were gradients.
        applied: false if a gradient was not finite and the whole step was left out.
    """

    grad_norms: Mapping[str, float]
    applied: bool

    @property
    def grad_norm(self) -> float:
        """Norm over all trained parameters before clipping."""
        return math.hypot(*self.grad_norms.values())


class PolicyOptimizer:
    """Optimizer of a policy's parameter groups, and of the networks of its algorithm.

    Each group counts its own steps: a policy that waits for its critic's warm-up begins its own
    warm-up when its turn comes.

    Attributes:
        lr_factors: what the scheduled rate of a group is multiplied by; 1 where it isn't named.

    Args:
        groups: `{"policy": [...], "value": [...]}` and the networks' by name, disjoint lists;
            "value" has its own rate.
        config: settings of the policy and its value head.
        networks: those among the groups; each has its own settings, and a constant rate.
    """

    def __init__(
        self,
        groups: Mapping[str, Sequence[nn.Parameter]],
        config: OptimConfig,
        networks: Sequence[NetworkNeeds] = (),
    ) -> None:
        self._config = config
        self._networks = {network.name: network for network in networks}
        self._parameters = {name: list(parameters) for name, parameters in groups.items()}
        every = [one for parameters in self._parameters.values() for one in parameters]
        self._masters = {
            parameter: nn.Parameter(dtensor.local_shard(parameter.detach()).float())
            for parameter in every
            if parameter.element_size() < torch.float32.itemsize
        }
        self._parts = {
            parameter: nn.Parameter(dtensor.local_shard(parameter.detach()))
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
                    **self._adam_settings(name),
                }
                for name, parameters in self._parameters.items()
                if parameters
            ]
        )

    def _base_rate(self, name: str) -> float:
        if name in self._networks:
            return self._networks[name].lr
        return self._config.value_lr if name == "value" else self._config.lr

    def _adam_settings(self, name: str) -> dict[str, Any]:
        """Settings of a group as torch's AdamW takes them."""
        if name in self._networks:
            own = self._networks[name].optim
            betas = (own.beta1, own.beta2)
            return {"betas": betas, "eps": own.eps, "weight_decay": own.weight_decay}
        shared = self._config
        return {
            "betas": (shared.adam_beta1, shared.adam_beta2),
            "eps": shared.adam_eps,
            "weight_decay": shared.weight_decay,
        }

    def clipped_with(self, group: str) -> str:
        """Return the group under whose name a group is clipped: a network by itself, the value head
        with the policy."""
        return group if group in self._networks else "policy"

    def _largest_norm(self, clipped: str) -> float | None:
        """Norm to which gradients are clipped; None: they are not."""
        if clipped in self._networks:
            return self._networks[clipped].optim.clip_grad
        return self._config.clip_grad

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
            if name not in self._networks
        }
        return scheduled | {name: network.lr for name, network in self._networks.items()}

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
                stepped.grad, parameter.grad = (
                    dtensor.local_shard(parameter.grad).to(stepped.dtype),
                    None,
                )
        norms = self._clip()
        rates = self.learning_rates()
        if not all(map(math.isfinite, norms.values())):
            self.skipped_steps += 1
            self.zero_grad()
            return StepReport(norms, False)
        for group in self._adam.param_groups:
            group["lr"] = rates[group["name"]]
        self._adam.step()
        with torch.no_grad():
            for parameter, master in self._masters.items():
                if master.grad is not None:
                    dtensor.local_shard(parameter).copy_(master)
        for name, parameters in self._parameters.items():
            self._steps[name] += any(self._stepped(p).grad is not None for p in parameters)
        self.zero_grad()
        return StepReport(norms, True)

    def _clip(self) -> dict[str, float]:
        """Clip the gradients; return the norms before."""
        together: dict[str, list[tuple[nn.Parameter, Tensor]]] = {}
        for name, parameters in self._parameters.items():
            for parameter in parameters:
                gradient = self._stepped(parameter).grad
                if gradient is not None:
                    together.setdefault(self.clipped_with(name), []).append((parameter, gradient))
        norms = {}
        for name, trained in together.items():
            total = dtensor.total_norm(trained)
            largest = self._largest_norm(name)
            if largest is not None:
                stepped = [self._stepped(parameter) for parameter, _ in trained]
                nn.utils.clip_grads_with_norm_(stepped, largest, total)
            norms[name] = float(total)
        return norms

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
                    if dtensor.is_saved_here(parameter, value):
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
