"""Keys of `algorithm` that all algorithms share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rlcore.config.schema.keys import Settings, key
from rlcore.contracts.specs import AdamW


@dataclass
class NetworkOptimConfig(Settings):
    """Optimizer of a network of the algorithm; its learning rate stands beside it, as critic_lr."""

    adam_beta1: float = key("AdamW beta 1", AdamW.beta1, minimum=0, exclusive_maximum=1)
    adam_beta2: float = key("AdamW beta 2", AdamW.beta2, minimum=0, exclusive_maximum=1)
    adam_eps: float = key("AdamW epsilon", AdamW.eps, exclusive_minimum=0)
    weight_decay: float = key("AdamW weight decay", AdamW.weight_decay, minimum=0)
    clip_grad: float | None = key(
        "clip the gradient of this network to this norm; null: it is not clipped",
        AdamW.clip_grad,
        exclusive_minimum=0,
    )

    @property
    def adamw(self) -> AdamW:
        """Return these settings in the form of :class:`rlcore.contracts.specs.NetworkNeeds`."""
        return AdamW(
            beta1=self.adam_beta1,
            beta2=self.adam_beta2,
            eps=self.adam_eps,
            weight_decay=self.weight_decay,
            clip_grad=self.clip_grad,
        )


@dataclass
class AlgorithmConfig(Settings):
    """Settings all algorithms share; a plugin's dataclass adds its own.

    Attributes:
        unused: keys or whole sections that this algorithm does not read: `{path: reason}`.
    """

    unused: ClassVar[Mapping[str, str]] = {}
    name: str = key("registered name of the algorithm", "???")
    group_size: int = key("episodes of an update that share one start", 1, minimum=1)
    wrappers: list[Any] = key(
        "what changes the algorithm, from inside out: NAME or {NAME: {key: value}}", []
    )

    @property
    def has_own_batches(self) -> bool:
        """Return whether the algorithm sets the batch size of its steps, not the actor."""
        return "actor.global_batch_size" in self.unused
