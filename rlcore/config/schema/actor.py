"""Keys of `actor`: the trained policy, its optimizer, and how its parameters are stored."""

from __future__ import annotations

from dataclasses import dataclass

from rlcore.config.schema.keys import Settings, When, key
from rlcore.config.schema.model import ModelConfig


@dataclass
class OptimConfig(Settings):
    """AdamW with one learning rate for the policy and one for the critic."""

    lr: float = key("policy learning rate", 1e-5, above=0)
    value_lr: float = key(
        "critic learning rate", 1e-4, above=0, when=When("actor.model.add_value_head", (True,))
    )
    adam_beta1: float = key("AdamW beta 1", 0.9, least=0, below=1)
    adam_beta2: float = key("AdamW beta 2", 0.95, least=0, below=1)
    adam_eps: float = key("AdamW epsilon", 1e-8, above=0)
    weight_decay: float = key("AdamW weight decay", 0.0, least=0)
    clip_grad: float = key("clip gradients to this norm", 1.0, above=0)
    lr_scheduler: str = key("after warm-up", "constant", choices=("constant", "cosine"))
    lr_warmup_steps: int = key("optimizer steps of linear warm-up", 0, least=0)
    total_training_steps: int | None = key(
        "optimizer steps of the cosine; needed by it",
        least=1,
        when=When("lr_scheduler", ("cosine",)),
    )


WHOLE = "no_shard"
DIVIDED = When("actor.fsdp_config.sharding_strategy", unless=(WHOLE,))


@dataclass
class MixedPrecisionConfig(Settings):
    """Dtypes of divided parameters apart from their own, which is actor.model.precision."""

    reduce_dtype: str | None = key(
        "gradients are summed over actor processes in this; null: in that of the parameters",
        choices=("fp32", "bf16"),
        when=DIVIDED,
    )


@dataclass
class FSDPConfig(Settings):
    """How parameters are held in memory."""

    gradient_checkpointing: bool = key("recompute activations; where the model supports it", False)
    sharding_strategy: str = key(
        "no_shard: each actor process holds all parameters; full_shard: they divide them, with "
        "gradients and optimizer, and gather a block when it computes; shard_grad_op: what was "
        "gathered stays until the backward pass; hybrid_shard: fsdp_size processes divide one copy",
        WHOLE,
        choices=(WHOLE, "shard_grad_op", "full_shard", "hybrid_shard"),
    )
    fsdp_size: int | None = key(
        "actor processes that divide one copy of the parameters; null: those of a node",
        least=1,
        when=When("sharding_strategy", ("hybrid_shard",)),
    )
    reshard_after_forward: bool | None = key(
        "give up a gathered block after its forward; null: unless sharding_strategy=shard_grad_op",
        when=DIVIDED,
    )
    cpu_offload: bool = key(
        "the divided parameters, gradients and moments lie in host memory, and AdamW steps there",
        False,
        when=DIVIDED,
    )
    mixed_precision: MixedPrecisionConfig = key("dtypes of sums", MixedPrecisionConfig())

    @property
    def divides(self) -> int:
        """How many actor processes divide one copy of the parameters: all (0), one (1: nothing is
        divided), those of a node (-1), or so many."""
        if self.sharding_strategy == "hybrid_shard":
            return self.fsdp_size or -1
        return 1 if self.sharding_strategy == WHOLE else 0

    @property
    def gathers_again(self) -> bool:
        """Whether a block is given up after its forward, and gathered again for its backward."""
        asked = self.reshard_after_forward
        return self.sharding_strategy != "shard_grad_op" if asked is None else asked


@dataclass
class ActorConfig(Settings):
    """The trained policy and its optimizer."""

    model: ModelConfig = key("the model", ModelConfig(), fixed="initial")
    optim: OptimConfig = key("the optimizer", OptimConfig())
    fsdp_config: FSDPConfig = key("parameter placement", FSDPConfig())
    enable_offload: bool = key(
        "weights, gradients and optimizer lie in host memory while a rollout or an env on the same "
        "accelerator works; the weights stay where one process acts and learns",
        False,
    )
    micro_batch_size: int = key("chunks per forward and backward of a rank", 128, least=1)
    global_batch_size: int = key("chunks per optimizer step over all ranks", 1024, least=1)

    def share_of_each(self, ranks: int) -> int:
        """Chunks of an optimizer step for each of so many ranks, rounded up; no micro-batch is
        larger."""
        return -(-self.global_batch_size // ranks)

    def micro_batch_within(self, most: int, ranks: int) -> int | None:
        """The most chunks per forward, up to `most`, with which so many ranks share an optimizer
        step evenly; None: there is none."""
        fitting = [n for n in range(1, most + 1) if self.global_batch_size % (n * ranks) == 0]
        return max(fitting, default=None)
