"""Step AdamW over parameter groups, with learning-rate schedules and gradient clipping.

The policy and its value head have the settings of `actor.optim` and are clipped by their joint
norm. Each network of an algorithm has separate settings and is clipped by its own norm. A step
whose gradients are not finite is skipped.

Parameters of a lower precision than fp32 have a master copy in fp32, which the optimizer steps: a
bf16 weight near 1 can't change by less than 2^-8, so it would lose the steps of a small learning
rate. Each rank steps its shard of a sharded parameter; gradients are clipped by the global norm.

Knows no losses. The optimizer's state consists of named tensors and JSON values, so that a
checkpoint needs no pickle.
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
from rlcore.runs.learner_state import MASTER

SAMPLE = 1024  # entries of each tensor that are compared to detect whether a step changed weights


def learning_rate_factor(
    config: OptimConfig, step: int, total: int | None = None, share: float = 0.0
) -> float:
    """Return the factor on the learning rate at optimizer step `step` (from 0).

    During the warm-up over `lr_warmup_steps` w, the factor is (step + 1) / w. Afterwards it is
    constant, or decays along a cosine to 0 at step n: (1 + cos(pi (step - w) / (n - w))) / 2.

    Args:
        total: n, if `total_training_steps` is None; None: the share of the run counts instead.
        share: share of the run's updates that are done.
    """
    warmup = config.lr_warmup_steps
    if step < warmup:
        return (step + 1) / warmup
    if config.lr_scheduler == "constant":
        return 1.0
    total = config.total_training_steps or total
    if total is None:
        return cosine(share)
    return cosine((step - warmup) / (total - warmup)) if step < total else 0.0


def cosine(share: float) -> float:
    """Return (1 + cos(pi s)) / 2 for the completed share s of a schedule; 0 after its end."""
    return 0.5 * (1.0 + math.cos(math.pi * min(1.0, share)))


@dataclass(frozen=True)
class StepReport:
    """The result of one optimizer step.

    Attributes:
        grad_norms: norm before clipping of each set of groups that is clipped jointly
            (:meth:`PolicyOptimizer.clip_group`); sets without gradients are omitted.
        applied: false if the whole step was skipped because a gradient was not finite.
    """

    grad_norms: Mapping[str, float]
    applied: bool

    @property
    def grad_norm(self) -> float:
        """Return the norm over all trained parameters before clipping."""
        return math.hypot(*self.grad_norms.values())


class PolicyOptimizer:
    """Optimizer of a policy's parameter groups and of its algorithm's networks.

    Each group counts its steps separately. A policy that is not trained while its critic warms up
    thus begins its learning-rate warm-up with its first step.

    Attributes:
        lr_factors: factor on the scheduled learning rate by group; 1 for groups without an entry.
        adapted_lr_factors: further such factors, which the algorithm adapts and checkpoints keep.
            Entries of a group in its warm-up are dropped: the steps there are small by design.

    Args:
        groups: disjoint lists of parameters by group: "policy", "value" and names of networks.
        config: settings of the policy and its value head, which has a separate learning rate.
        networks: the networks among the groups. Each has separate settings and a constant learning
            rate.
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
        every = [parameter for parameters in self._parameters.values() for parameter in parameters]
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
        self._stepped = {
            name: [self._stepped_for(parameter) for parameter in parameters]
            for name, parameters in self._parameters.items()
        }
        self._steps = dict.fromkeys(groups, 0)
        self.lr_factors: Mapping[str, float] = {}
        self.adapted_lr_factors: dict[str, float] = {}
        self._total: int | None = None
        self._share = 0.0
        self._adam = torch.optim.AdamW(
            [
                {
                    "params": stepped,
                    "lr": self._base_rate(name),
                    "name": name,
                    **self._adam_settings(name),
                }
                for name, stepped in self._stepped.items()
                if stepped
            ]
        )

    def _base_rate(self, name: str) -> float:
        """Return a group's learning rate before schedule and factor."""
        if name in self._networks:
            return self._networks[name].lr
        return self._config.value_lr if name == "value" else self._config.lr

    def _adam_settings(self, name: str) -> dict[str, Any]:
        """Return a group's settings as arguments of torch's AdamW."""
        if name in self._networks:
            settings = self._networks[name].optim
            return {
                "betas": (settings.beta1, settings.beta2),
                "eps": settings.eps,
                "weight_decay": settings.weight_decay,
                # Networks have many small tensors: one kernel steps them on a CPU in a quarter of
                # the time of a loop. It rounds differently, so the policy is not stepped by it.
                "fused": True,
            }
        return {
            "betas": (self._config.adam_beta1, self._config.adam_beta2),
            "eps": self._config.adam_eps,
            "weight_decay": self._config.weight_decay,
        }

    def plan_cosine(self, update: int, updates: int | None, steps_left: int | None) -> None:
        """Set where a cosine without `total_training_steps` ends. To be called before each update.

        Args:
            update: number of updates done.
            updates: number of updates of the run; None: there is no limit.
            steps_left: most steps of the policy that the run has left; None: that depends on the
                rollouts, so the rate falls from update to update.
        """
        self._total = None if steps_left is None else self._steps["policy"] + steps_left
        self._share = update / updates if updates else 0.0

    def clip_group(self, group: str) -> str:
        """Return the name of the joint norm that clips a group: the policy and its value head share
        "policy", and a network has its own."""
        return group if group in self._networks else "policy"

    def _max_norm(self, clipped: str) -> float | None:
        """Return the norm to which gradients are clipped, or None if they are not clipped."""
        if clipped in self._networks:
            return self._networks[clipped].optim.clip_grad
        return self._config.clip_grad

    def parameters(self, group: str) -> list[nn.Parameter]:
        """Return the parameters of one group."""
        return self._parameters[group]

    def learning_rates(self) -> dict[str, float]:
        """Return the learning rate of each group at its next step."""
        scheduled = {
            name: self._base_rate(name)
            * learning_rate_factor(self._config, self._steps[name], self._total, self._share)
            * self.lr_factors.get(name, 1.0)
            * self.adapted_lr_factors.get(name, 1.0)
            for name in self._parameters
            if name not in self._networks
        }
        return scheduled | {name: network.lr for name, network in self._networks.items()}

    def _stepped_for(self, parameter: nn.Parameter) -> nn.Parameter:
        """Return the tensor that AdamW steps: the parameter's master copy if it has one, else its
        local shard, over the same memory."""
        return self._masters.get(parameter, self._parts.get(parameter, parameter))

    def zero_grad(self) -> None:
        """Drop all gradients, also those that were not stepped."""
        for parameters in (*self._stepped.values(), self._masters, self._parts):
            for parameter in parameters:
                parameter.grad = None

    def step(self) -> StepReport:
        """Clip gradients, and step every parameter that has one, for all ranks at once.

        Weights and moments of parameters without a gradient do not change. If any gradient is not
        finite, the whole step is skipped.
        """
        for parameter, stepped in (*self._masters.items(), *self._parts.items()):
            if parameter.grad is not None:
                stepped.grad = dtensor.local_shard(parameter.grad).to(stepped.dtype)
                # freed at once, so that memory never holds all gradients twice
                parameter.grad = None
        norms = self._clip()
        for name in [*self.adapted_lr_factors]:
            if self._steps[name] < self._config.lr_warmup_steps:
                del self.adapted_lr_factors[name]
        rates = self.learning_rates()
        if not all(map(math.isfinite, norms.values())):
            self.zero_grad()
            return StepReport(norms, False)
        for group in self._adam.param_groups:
            group["lr"] = rates[group["name"]]
        self._adam.step()
        with torch.no_grad():
            for parameter, master in self._masters.items():
                if master.grad is not None:
                    dtensor.local_shard(parameter).copy_(master)
        for name, parameters in self._stepped.items():
            self._steps[name] += any(parameter.grad is not None for parameter in parameters)
        self.zero_grad()
        return StepReport(norms, True)

    def _clip(self) -> dict[str, float]:
        """Clip gradients in place; return their norms before clipping."""
        jointly_clipped: dict[str, list[tuple[nn.Parameter, nn.Parameter, Tensor]]] = {}
        for name, parameters in self._parameters.items():
            for parameter, stepped in zip(parameters, self._stepped[name], strict=True):
                if stepped.grad is not None:
                    clipped = jointly_clipped.setdefault(self.clip_group(name), [])
                    clipped.append((parameter, stepped, stepped.grad))
        norms = {}
        for name, clipped in jointly_clipped.items():
            norm = dtensor.total_norm((parameter, gradient) for parameter, _, gradient in clipped)
            max_norm = self._max_norm(name)
            if max_norm is not None:
                clipped_parameters = [stepped for _, stepped, _ in clipped]
                nn.utils.clip_grads_with_norm_(clipped_parameters, max_norm, norm)
            norms[name] = float(norm)
        return norms

    def sample(self) -> list[Tensor]:
        """Return copies of the first entries of every tensor, at most :data:`SAMPLE` of each."""
        tensors = [tensor for parameters in self._stepped.values() for tensor in parameters]
        return [tensor.detach().flatten()[:SAMPLE].clone() for tensor in tensors]

    def differs_from(self, before: Sequence[Tensor]) -> bool:
        """Check whether any sampled entry differs from an earlier :meth:`sample`."""
        pairs = zip(before, self.sample(), strict=True)
        return not all(torch.equal(earlier, current) for earlier, current in pairs)

    def tensors(self) -> Iterator[Tensor]:
        """Yield the current gradients, moments and master copies."""
        for parameters in self._parameters.values():
            for parameter in parameters:
                stepped = self._stepped_for(parameter)
                yield from (p.grad for p in (parameter, stepped) if p.grad is not None)
                yield from self._adam.state.get(stepped, {}).values()
        yield from self._masters.values()

    def state_dict(self) -> dict[str, Any]:
        """Return `{"tensors": {"GROUP.INDEX.MOMENT": tensor}, "state": JSON values}`.

        Tensors are copies on the host; those of sharded parameters have the local rows. A master
        copy is stored like a moment.
        """
        tensors: dict[str, Tensor] = {}
        for name, parameters in self._parameters.items():
            for index, parameter in enumerate(parameters):
                moments = dict(self._adam.state.get(self._stepped_for(parameter), {}))
                if parameter in self._masters:
                    moments[MASTER] = self._masters[parameter]
                for moment, value in moments.items():
                    if dtensor.is_saved_here(parameter, value):
                        tensors[f"{name}.{index}.{moment}"] = value.detach().cpu().clone()
        return {
            "tensors": tensors,
            "state": {
                "steps": dict(self._steps),
                "sizes": {name: len(ps) for name, ps in self._parameters.items()},
                "adapted_lr_factors": dict(self.adapted_lr_factors),
            },
        }

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Load the result of :meth:`state_dict`, with all rows of sharded parameters. This rank
        reads its own rows, tensor by tensor.

        Raises:
            CheckpointError: the sizes of groups or the shapes of parameters differ.
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
            if moment == MASTER:
                # the parameter has a master copy here too: a resume can't change the precision
                self._masters[parameter].data.copy_(dtensor.rows_for(tensor, parameter))
                continue
            # AdamW keeps its step count on the host, but where it is fused on the device
            on_host = moment == "step" and name not in self._networks
            device = torch.device("cpu") if on_host else parameter.device
            local = tensor if moment == "step" else dtensor.rows_for(tensor, parameter)
            self._adam.state[self._stepped_for(parameter)][moment] = local.clone().to(device)
        self._steps = dict(saved["state"]["steps"])
        self.adapted_lr_factors.clear()  # shared with the algorithm, so changed in place
        # checkpoints written before algorithms could adapt rates have none
        self.adapted_lr_factors.update(saved["state"].get("adapted_lr_factors", {}))
