"""Updates that must come out the same on one process and on several: `CASES` by name, and how one
is run. Also a program, one rank of several: `python sharded_cases.py RANK SIZE FOLDER CASE...`.

All ranks draw the same weights and the same recorded batch from the same seeds; each takes its
share of the columns. Rank r writes what came out to FOLDER/CASE-SIZE-r.pt.

A CASE is a name, and how it is run: `pi0` with divided parameters, `pi0:copies` with whole ones;
`pi0:keep` leaves a checkpoint after the first update, `pi0:resume-2` begins with that of two ranks;
`pi0:offload` leaves the device after each update, as others would work there meanwhile;
`whole:supervised` learns from demonstrations instead, `whole:supervised-copies` with whole ones.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rlcore_testing.conformance.fake_env import fake_env, fake_observation
from rlcore_testing.conformance.trajectories import random_trajectory
from torch import nn

from rlcore.config.schema import (
    ActorConfig,
    AlgorithmConfig,
    FSDPConfig,
    MixedPrecisionConfig,
    OptimConfig,
    SFTConfig,
)
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.trajectory import Trajectory
from rlcore.demonstrations.datasets import SupervisedSamples
from rlcore.learner import collectives, dtensor
from rlcore.learner.offload import HostCopies
from rlcore.learner.supervised import SupervisedTrainer
from rlcore.learner.update import Learner
from rlcore.rollout.columns import take
from rlcore.runs.learner_state import read_learner, write_learner

CPU = torch.device("cpu")
HERE = Path(__file__).parent
PATIENCE = 300.0  # seconds that a rank waits for the others, on a machine that is busy with others
OPTIM = {"lr": 1e-2, "value_lr": 1e-2, "adam_eps": 1e-4, "clip_grad": 0.5}
PI0 = {"size": "tiny", "action_horizon": 6, "num_steps": 2, "critic_hidden": [16]}
TOKENS = {"size": "tiny", "num_action_chunks": 2}


@dataclass(frozen=True)
class Case:
    """An update, or several.

    Attributes:
        make: the policy.
        settings: of the algorithm.
        algorithm: its name.
        fsdp: how parameters are held.
        actor: minibatch sizes.
        optim: changes of the optimizer.
        shares: how many columns each rank gets; None: they are dealt out in turn.
        updates: how many; the second sees weights that have moved.
        columns: of the batch.
    """

    make: Callable[[], Any]
    settings: dict[str, Any] = field(default_factory=dict)
    algorithm: str = "toy"
    fsdp: FSDPConfig = field(default_factory=lambda: FSDPConfig(sharding_strategy="full_shard"))
    actor: dict[str, Any] = field(
        default_factory=lambda: {"global_batch_size": 16, "micro_batch_size": 3}
    )
    optim: dict[str, Any] = field(default_factory=dict)
    shares: tuple[int, ...] | None = None
    updates: int = 2
    columns: int = 6


def bench() -> Any:
    """conftest.py beside this file, as a module."""
    if "bench" not in sys.modules:
        source = importlib.util.spec_from_file_location("bench", HERE / "conftest.py")
        assert source is not None and source.loader is not None
        sys.modules["bench"] = importlib.util.module_from_spec(source)
        source.loader.exec_module(sys.modules["bench"])
    return sys.modules["bench"]


def linear() -> Any:
    """Two linear layers and a number."""
    return bench().LinearPolicy()


def blocked() -> Any:
    """The same, its mean in a block: what is left is gathered with the critic."""
    policy = bench().LinearPolicy()
    policy.spec = replace(policy.spec, has_blocks=True)
    policy.blocks = lambda: [policy.mean]
    return policy


def narrow() -> Any:
    """Fewer rows than three ranks: two for the mean, one for the critic."""
    policy = bench().LinearPolicy(actions=1, entries=2)
    policy.spec = replace(policy.spec, has_blocks=True)
    policy.blocks = lambda: [policy.mean]
    return policy


def head() -> Any:
    """A critic that is a block."""
    policy = blocked()
    policy.blocks = lambda: [policy.mean, policy.value]
    return policy


def deep(*, tied: bool = False, frozen: bool = False, half: bool = False) -> Callable[[], Any]:
    """Three blocks of one layer and one layer beside them, below the linear policy.

    Args:
        tied: the first two blocks share a weight, and the third one shares its own with the rest.
        frozen: the first block is not trained, nor is a weight of the second and of the rest.
        half: in bf16, but for the norm of each block.
    """

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.norm = nn.LayerNorm(4)

        def forward(self, features: torch.Tensor) -> torch.Tensor:
            mixed = self.linear(features.to(self.linear.weight.dtype))
            return torch.tanh(self.norm(mixed.float()))

    class Deep(bench().LinearPolicy):  # type: ignore[misc]  # a class of another test module
        def __init__(self) -> None:
            super().__init__()
            self.stack = nn.ModuleList(Block() for _ in range(3))
            self.rest = nn.Linear(4, 4)
            self.spec = replace(self.spec, has_blocks=True)
            if half:
                for linear in (*(block.linear for block in self.stack), self.rest):
                    linear.bfloat16()
            if tied:
                self.stack[1].linear.weight = self.stack[0].linear.weight
                self.rest.weight = self.stack[2].linear.weight
            if frozen:
                self.stack[0].requires_grad_(False)
                self.stack[1].linear.weight.requires_grad_(False)
                self.rest.weight.requires_grad_(False)

        def blocks(self) -> list[nn.Module]:
            return list(self.stack)

        def evaluate(self, inputs: Any, replay: Any) -> Any:
            features = inputs["features"]
            for block in self.stack:
                features = block(features)
            features = self.rest(features.to(self.rest.weight.dtype)).float()
            return super().evaluate({"features": features}, replay)

        def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
            groups = super().parameter_groups()
            held = {id(parameter) for group in groups.values() for parameter in group}
            more = [
                parameter
                for parameter in self.parameters()
                if parameter.requires_grad and id(parameter) not in held
            ]
            return {**groups, "policy": [*groups["policy"], *more]}

    return Deep


def pi0(**settings: Any) -> Callable[[], Any]:
    def make() -> Any:
        from rlcore_model_openpi.policy import make as build
        from rlcore_model_openpi.settings import OpenPIConfig, OpenPIModelConfig

        openpi = {**PI0, "config_name": "pi0_metaworld", "train_expert_only": False}
        own = {key: settings[key] for key in settings if key in vars(OpenPIConfig())}
        rest = {key: settings[key] for key in settings if key not in own}
        config = OpenPIModelConfig(
            model_type="openpi",
            num_action_chunks=4,
            **{"add_value_head": True, **rest},
            openpi=OpenPIConfig(**openpi | own),
        )
        policy = build(config, env_spec=fake_env())
        policy.set_checkpointing(True)
        return policy

    return make


def smolvla(**settings: Any) -> Callable[[], Any]:
    def make() -> Any:
        from rlcore_model_smolvla.policy import make as build
        from rlcore_model_smolvla.settings import SmolVLAConfig, SmolVLAModelConfig

        own = {key: settings[key] for key in settings if key in vars(SmolVLAConfig())}
        rest = {key: settings[key] for key in settings if key not in own}
        config = SmolVLAModelConfig(
            num_action_chunks=4,
            add_value_head=True,
            **rest,
            smolvla=SmolVLAConfig(**{**PI0, "train_expert_only": False, **own}),
        )
        policy = build(config, env_spec=fake_env())
        policy.set_checkpointing(True)
        return policy

    return make


def tokens(name: str, **settings: Any) -> Callable[[], Any]:
    def make() -> Any:
        from importlib import import_module

        kinds = {"openvla": "OpenVLAConfig", "openvla_oft": "OpenVLAOFTConfig"}
        package = f"rlcore_model_{name}"
        config = getattr(import_module(f"{package}.settings"), kinds[name])
        made = config(model_type=name, **{"add_value_head": False, **TOKENS, **settings})
        return import_module(f"{package}.policy").make(made, env_spec=fake_env())

    return make


def summed(dtype: str) -> FSDPConfig:
    """Divided, with gradients that are summed in a dtype."""
    sums = MixedPrecisionConfig(reduce_dtype=dtype)
    return FSDPConfig(sharding_strategy="full_shard", mixed_precision=sums)


GRPO = {"algorithm": "grpo", "settings": {"group_size": 2, "kl_beta": 0.1}}
SMALL = {"optim": {"lr": 1e-3}, "columns": 4}
CASES: dict[str, Case] = {
    # every rank runs as many micro-batches as that with the most; one holds no row, one few
    "uneven": Case(blocked, {"update_epoch": 2}, shares=(5, 1, 0)),
    "whole": Case(linear, fsdp=FSDPConfig(sharding_strategy="shard_grad_op")),
    "reference": Case(blocked, {"kl_beta": 0.3, "recompute_logprobs": True}),
    "warm-up": Case(blocked, {"critic_warmup_updates": 1}),
    "narrow": Case(narrow),
    "head": Case(head, {"critic_warmup_updates": 2}),
    "tied": Case(deep(tied=True)),
    "frozen": Case(deep(frozen=True)),
    "half-bf16": Case(deep(half=True), optim={"lr": 1e-3}, fsdp=summed("fp32")),
    "summed-bf16": Case(blocked, fsdp=summed("bf16")),
    "kept": Case(blocked, fsdp=FSDPConfig(sharding_strategy="shard_grad_op")),
    "hybrid": Case(blocked, fsdp=FSDPConfig(sharding_strategy="hybrid_shard", fsdp_size=2)),
    "host": Case(blocked, fsdp=FSDPConfig(sharding_strategy="full_shard", cpu_offload=True)),
    "pi0": Case(pi0(), **SMALL),
    "pi0-bf16": Case(pi0(precision="bf16"), **SMALL),
    "pi0-expert": Case(pi0(train_expert_only=True, joint_logprob=True), **SMALL),
    "pi0-vlm-critic": Case(pi0(value_after_vlm=True), **SMALL),
    "pi0-warm-up": Case(pi0(value_after_vlm=True), {"critic_warmup_updates": 1}, **SMALL),
    "pi0-uneven": Case(pi0(), **SMALL, shares=(3, 1, 0, 0)),
    "pi0-lora": Case(pi0(is_lora=True, lora_rank=4, precision="bf16"), **SMALL),
    "smolvla": Case(smolvla(), **SMALL),
    "smolvla-bf16": Case(smolvla(precision="bf16", train_expert_only=True), **SMALL),
    "smolvla-vlm-critic": Case(smolvla(value_after_vlm=True), **SMALL),
    "smolvla-lora": Case(smolvla(is_lora=True, lora_rank=4), **SMALL),
    "openvla": Case(tokens("openvla"), **GRPO, **SMALL),
    "openvla-lora": Case(tokens("openvla", is_lora=True, lora_rank=4), **GRPO, **SMALL),
    "oft": Case(tokens("openvla_oft"), **GRPO, **SMALL),
    "oft-lora": Case(
        tokens("openvla_oft", is_lora=True, lora_rank=4, precision="bf16"), **GRPO, **SMALL
    ),
}


def record(case: Case, policy: Any) -> Trajectory:
    """A batch of its decisions: random ends and rewards, old log-probs and values a little off."""
    spec = policy.spec
    group = case.settings.get("group_size", 0)
    plain = isinstance(policy, bench().LinearPolicy)
    batch = random_trajectory(
        chunks=5,
        columns=case.columns,
        actions=spec.num_action_chunks,
        entries=spec.action_dim,
        value_width=spec.value_dim,
        group_size=group,
    )
    made = batch.sample_index >= 0
    if not plain:
        rows = int(made.sum())
        inputs = policy.prepare(fake_observation(fake_env(), rows))
        keys = RowKeys(tuple(("case", row) for row in range(rows)))
        batch = replace(
            batch,
            inputs={name: torch.from_numpy(np.array(array)) for name, array in inputs.items()},
            replay=policy.act(inputs, keys).replay,
        )
    with torch.no_grad():
        now = policy.evaluate(batch.inputs, batch.replay)
    random = torch.Generator().manual_seed(1)
    for name, array in (("logprobs", now.logprobs), ("values", now.values)):
        noise = 0.1 * torch.randn(array.shape, generator=random)
        getattr(batch, name)[made] = (array.float() + noise)[batch.sample_index[made]]
    return batch


def share(case: Case, batch: Trajectory, rank: int, size: int) -> Trajectory:
    """This rank's columns."""
    if case.shares is None or size != len(case.shares):
        return take(batch, range(rank, case.columns, size))
    first = sum(case.shares[:rank])
    return take(batch, range(first, first + case.shares[rank]))


def learner(case: Case, policy: Any) -> Learner:
    """Its learner."""
    if case.algorithm == "grpo":
        from rlcore_algo_grpo.grpo import GRPO as Algorithm
        from rlcore_algo_grpo.settings import GRPOConfig as Config
    else:
        Algorithm = bench().ToyActorCritic
        Config = bench().ToyConfig
    config: AlgorithmConfig = Config(name=case.algorithm, **case.settings)
    actor = ActorConfig(optim=OptimConfig(**OPTIM | case.optim), **case.actor)
    algorithm = Algorithm(config)
    algorithm.needs = replace(algorithm.needs, exact_logprobs=False)  # they are a little off
    return Learner(policy, algorithm, actor, config, seed=0)


def start(case: Case) -> tuple[Any, Trajectory]:
    """Policy and batch, alike on all ranks."""
    torch.manual_seed(0)
    policy = case.make()
    with torch.no_grad():
        for parameter in policy.parameters():  # heads that start at zero hide nothing
            parameter.add_((0.02 * torch.randn(parameter.shape)).to(parameter.dtype))
    return policy, record(case, policy)


def run(
    name: str, how: str = "", *, rank: int = 0, size: int = 1, folder: Path | None = None
) -> dict[str, Any]:
    """The updates of a case; whole weights and moments, and the metrics of each update."""
    case = CASES[name]
    policy, batch = start(case)
    how, _, before = how.partition("-") if how.startswith("resume") else (how, "", "")
    resumed = None if folder is None else kept(folder, name, int(before or 0))
    if how == "resume":
        assert resumed is not None
        policy.load_state_dict(torch.load(resumed / "weights.pt"))
    mine = share(case, batch, rank, size)
    if size > 1 and not how.endswith("copies"):
        from rlcore.learner.shard import shard_parameters

        shard_parameters(policy, case.fsdp, CPU, among=case.fsdp.fsdp_size or size)
    if how.startswith("supervised"):
        return supervised(policy, None if folder is None else kept(folder, how, size))
    trainer = learner(case, policy)
    if how == "resume":
        assert resumed is not None
        trainer.load_state_dict(read_learner(resumed))
    metrics = []
    for update in range(int(how == "resume"), case.updates):
        metrics.append(trainer.update(mine, update))
        if how == "offload":
            be_away(policy, trainer)
        if how == "keep" and not update:
            assert folder is not None
            keep(policy, trainer, kept(folder, name, size))
    return {"metrics": metrics, **outcome(policy, trainer)}


def be_away(policy: nn.Module, trainer: Learner) -> None:
    """Free all memory of weights, gradients and optimizer, and have it again."""
    everything = [*policy.parameters(), *policy.buffers(), *trainer.tensors()]
    copies = HostCopies()
    copies.offload(everything, CPU)
    assert len(copies) and not any(
        dtensor.local_shard(tensor.detach()).untyped_storage().nbytes() for tensor in everything
    )
    copies.restore()


def kept(folder: Path, name: str, size: int) -> Path:
    """Where so many ranks leave the checkpoint of a case."""
    return folder / f"kept-{name}-{size}"


def supervised(policy: Any, folder: Path | None) -> dict[str, Any]:
    """Four steps on batches of two: a third rank has no sample of them."""
    random = torch.Generator().manual_seed(2)

    def samples(count: int) -> SupervisedSamples:
        spec = policy.spec
        shape = (count, spec.action_horizon, spec.action_dim)
        features = torch.randn((count, 4), generator=random)
        actions = torch.randn(shape, generator=random)
        return SupervisedSamples({"features": features}, actions, torch.ones(shape[:2]).bool())

    config = SFTConfig(enabled=True, max_steps=4, batch_size=2, val_interval=2, lr_warmup_steps=0)
    train = samples(20)
    val = samples(5)
    trainer = SupervisedTrainer(policy, config, train, val, seed=0)
    if folder is not None:  # saved after three steps, and gone on with by a new optimizer
        trainer.train(3)
        saved = trainer.state_dict()
        if trainer.share is not None:
            part, of = trainer.share
            folder.mkdir(exist_ok=True)
            write_learner(folder, saved, part=part, parts=of)
        torch.distributed.barrier()
        trainer = SupervisedTrainer(policy, config, train, val, seed=0)
        trainer.load_state_dict(read_learner(folder))
        assert trainer.history.steps == 3
    history = trainer.train()
    losses = [loss for _, loss in (*history.train_loss, *history.val_loss)]
    weights = {
        name: dtensor.full_tensor(parameter.detach())
        for name, parameter in policy.named_parameters()
    }
    return {"losses": losses, "weights": weights}


def keep(policy: Any, trainer: Learner, folder: Path) -> None:
    """A checkpoint, as an actor worker writes it."""
    folder.mkdir(exist_ok=True)
    with whole(policy) as first:
        if first:
            torch.save(policy.state_dict(), folder / "weights.pt")
            if not isinstance(policy, bench().LinearPolicy):
                policy.save_pretrained(folder / "policy")
    if trainer.share is not None:
        part, of = trainer.share
        write_learner(folder, trainer.state_dict(), part=part, parts=of)


def whole(policy: Any) -> AbstractContextManager[bool]:
    """Inside, the first rank has all weights; gives whether this is it."""
    if not collectives.is_distributed():
        return nullcontext(True)
    from rlcore.learner.shard import gathered_on_rank0

    return gathered_on_rank0(policy)


def outcome(policy: nn.Module, trainer: Learner) -> dict[str, Any]:
    """Whole weights by name, and whole moments in the order of the parameters."""
    weights = {
        name: dtensor.full_tensor(parameter.detach()).float()
        for name, parameter in policy.named_parameters()
    }
    optimizer = trainer._optimizer
    moments = []
    for group in ("policy", "value"):
        stepped = optimizer._stepped[group]
        for parameter, own in zip(optimizer.parameters(group), stepped, strict=True):
            state = optimizer._adam.state.get(own, {})
            for moment in ("exp_avg", "exp_avg_sq"):
                if moment in state:
                    moments.append(_like(state[moment], parameter))
    return {"weights": weights, "moments": moments}


def _like(moment: torch.Tensor, parameter: Any) -> torch.Tensor:
    if not dtensor.is_sharded(parameter):
        return moment.float()
    from torch.distributed.tensor import DTensor

    made = DTensor.from_local(
        moment,
        parameter.device_mesh,
        parameter.placements,
        run_check=False,
        shape=parameter.shape,
        stride=parameter.stride(),
    )
    return made.full_tensor().float()


def main(rank: int, size: int, folder: Path, names: Sequence[str]) -> None:
    """Run cases as one rank of several, divided and not (`NAME:copies`)."""
    torch.set_num_threads(1)
    collectives.join_process_group(
        CPU, url=f"file://{folder}/meet-{size}", rank=rank, world_size=size, timeout=PATIENCE
    )
    for name in names:
        case, _, how = name.partition(":")
        result = run(case, how, rank=rank, size=size, folder=folder)
        torch.save(result, folder / f"{name}-{size}-{rank}.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
