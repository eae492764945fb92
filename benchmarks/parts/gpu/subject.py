"""The networks that are measured: of tiny, middle and published sizes, with random weights.

Large weights are never made in fp32 or in main memory: while a policy is built they have shapes
and dtypes only (torch's meta device); then each is made on the card in its own dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from rlcore.checks.facts import Facts, gather_facts, plan_run
from rlcore.config.compose import compose
from rlcore.config.schema import RunConfig
from rlcore.contracts.protocols import Evaluation, Inputs, Observation, Policy
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import EnvSpec
from rlcore.learner.optim import PolicyOptimizer
from rlcore.placement.described_nodes import read_inventory
from rlcore.plugins.registry import load_plugins
from rlcore.rollout.batch_invariance import random_observation
from rlcore.training.assembly import policy_settings
from rlcore.workers.actor_worker import ActorWorker
from rlcore.workers.policy_worker import PolicyWorkerSettings

RECIPES = {
    "pi0": "libero_10_ppo_openpi",
    "pi05": "libero_10_ppo_openpi_pi05",
    "openvla_oft": "libero_10_ppo_openvlaoft",
}
"""Of each model, the recipe whose settings the published size has."""
_OF_FLOWS = {
    "lora": {"is_lora": "true", "openpi.train_expert_only": "false"},
    "expert": {"is_lora": "false", "openpi.train_expert_only": "true"},
}
METHODS = {"pi0": _OF_FLOWS, "pi05": _OF_FLOWS, "openvla_oft": {"lora": {"is_lora": "true"}}}
"""Of each model, what may be trained, as keys of `actor.model`."""
TINY = {"pi0": "pi0_tiny", "pi05": "pi05_tiny", "openvla_oft": "openvla_oft_tiny",
        "openvla": "openvla_tiny"}  # fmt: skip
MIDDLE = {
    "pi0": ("model=pi0_small",),
    "pi05": ("model=pi05_small",),
    "openvla_oft": ("model=openvla_oft_tiny", "actor.model.size=tiny_published"),
    "openvla": ("model=openvla_tiny", "actor.model.size=tiny_published"),
}
ONE_PROCESS = (
    "cluster.backend=local",
    "cluster.component_placement={env: 0, rollout: 0, actor: 0}",
)
CARD = "1x80GB"
"""The machine that the plan is made for; what a process needs does not depend on its size."""
LARGE = 2**20
"""Bytes from which on a weight is made late."""


def published(model: str, method: str, *more: str) -> list[str]:
    """Return the words of the recipe of a published size, in bf16, without a checkpoint."""
    return [
        f"experiment={RECIPES[model]}",
        *ONE_PROCESS,
        "actor.model.model_path=null",
        "actor.model.precision=bf16",
        "rollout.pipeline_stage_num=1",
        *(f"actor.model.{key}={value}" for key, value in METHODS[model][method].items()),
        *more,
    ]


def small(model: str, size: str, *more: str) -> list[str]:
    """Return the words of a run of the toy env with a "tiny" or "middle" network."""
    words = (f"model={TINY[model]}",) if size == "tiny" else MIDDLE[model]
    return ["env=toy", "algorithm=ppo", *ONE_PROCESS, *words, *more]


def subject_words(model: str, method: str, quick: bool, *more: str) -> list[str]:
    """Return the words of a published size, or of a tiny one with the same method."""
    if not quick:
        return published(model, method, *more)
    keys = (f"actor.model.{key}={value}" for key, value in METHODS[model][method].items())
    return small(model, "tiny", *keys, *more)


@dataclass
class Subject:
    """A policy on its device, and what is known of its run.

    Attributes:
        config: of the run.
        facts: the plan, for a card.
        env: what the policy sees.
        policy: acts and is evaluated.
    """

    config: RunConfig
    facts: Facts
    env: EnvSpec
    policy: Any

    @property
    def parameters(self) -> int:
        return sum(one.numel() for one in self.policy.parameters())

    @property
    def trained(self) -> int:
        return sum(one.numel() for one in self.policy.parameters() if one.requires_grad)

    def observed(self, rows: int) -> Inputs:
        """Return stored inputs of random frames."""
        observation: Observation = random_observation(self.env, rows)
        policy: Policy = self.policy
        return policy.prepare(observation)

    def keys(self, rows: int) -> RowKeys:
        return RowKeys(tuple((self.config.runner.seed, "gpu", row) for row in range(rows)))

    def decided(self, rows: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return inputs and replay of decisions, on the host, as a trajectory stores them."""
        inputs = self.observed(rows)
        output = self.policy.act(inputs, self.keys(rows))
        replay = {name: tensor.cpu() for name, tensor in output.replay.items()}
        return {name: torch.from_numpy(array) for name, array in inputs.items()}, replay

    def stored(self, rows: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return one decision as many times, so that acting needs no more than one row's memory."""
        inputs, replay = self.decided(1)
        return tuple(  # type: ignore[return-value]
            {name: tensor.repeat(rows, *[1] * (tensor.dim() - 1)) for name, tensor in each.items()}
            for each in (inputs, replay)
        )

    def optimizer(self) -> PolicyOptimizer:
        """Return a fresh optimizer of all that is trained."""
        return PolicyOptimizer(self.policy.parameter_groups(), self.config.actor.optim)

    def loss(self, inputs: Mapping[str, Tensor], replay: Mapping[str, Tensor]) -> Tensor:
        """Return a loss that needs all that PPO's needs: log-probs, values and entropy."""
        found: Evaluation = self.policy.evaluate(inputs, replay)
        total = -found.logprobs.mean() - 0.01 * found.entropy.mean()
        return total + found.values.square().mean() if found.values.numel() else total


def planned_facts(words: Sequence[str]) -> Facts:
    """Return what is known of a run on one card, without building anything."""
    registry, config = load_plugins(), compose(list(words))
    return gather_facts(config, registry, plan_run(config, read_inventory(CARD), registry))


def settings_of(facts: Facts) -> PolicyWorkerSettings:
    """Return the settings of an actor worker of a run."""
    return policy_settings(facts.config, facts.policy_env, load_plugins())


def build(words: Sequence[str], device: torch.device, *, late: int | None = LARGE) -> Subject:
    """Build a policy as an actor worker builds it, on a device.

    Args:
        words: of the command line of `rlcore train`.
        late: bytes from which on a weight is drawn on the device and not as the policy draws it;
            None: all are drawn as in a run, on the CPU.
    """
    facts = planned_facts(words)

    def make() -> Any:
        return ActorWorker(settings_of(facts)).make(facts.config.actor.model)

    policy = make().to(device) if late is None else built_late(make, device, late)
    return Subject(facts.config, facts, facts.policy_env, policy)


def built_late(make: Callable[[], Any], device: torch.device, late: int) -> Any:
    """Return what `make` builds, with the weights of at least `late` bytes made on the device."""
    with torch.device(device), _weights_on_meta(late):
        policy = make()
    _fill(policy, device)
    return policy.to(device)


@contextmanager
def _weights_on_meta(late: int) -> Iterator[None]:
    """Give large parameters shapes and dtypes only, when a module registers them."""

    def without_memory(_: nn.Module, __: str, parameter: nn.Parameter | None) -> Any:
        if parameter is None or parameter.nbytes < late:
            return None
        return nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad)

    handle = register_module_parameter_registration_hook(without_memory)
    try:
        yield
    finally:
        handle.remove()


def _fill(policy: nn.Module, device: torch.device) -> None:
    """Draw the weights that have no memory yet, each in its own dtype; tied ones stay tied."""
    torch.manual_seed(0)
    made: dict[nn.Parameter, nn.Parameter] = {}
    for module in policy.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            if parameter.device.type != "meta":
                continue
            if parameter not in made:
                drawn = torch.empty_like(parameter, device=device).normal_(std=0.02)
                made[parameter] = nn.Parameter(drawn, parameter.requires_grad)
            setattr(module, name, made[parameter])
