"""What processes hold, as an estimate in bytes, and how full that makes an accelerator. Pure.

Policies take turns: the rollout acts, then the actor learns. Who leaves an accelerator to others
(`enable_offload`) holds nothing there in the other's turn. Who stays keeps all it ever needed:
torch gives nothing back by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rlcore.placement.plan import Plan
from rlcore.specs import PolicySpec

BYTES = {"fp32": 4, "bf16": 2}
_ADAMW_MOMENTS = 2
_FP32 = BYTES["fp32"]


@dataclass(frozen=True)
class Need:
    """Bytes of a process.

    Attributes:
        weights: what it computes with, whatever it does.
        state: what learning keeps besides: gradients, optimizer, reference weights.
        acting: needed besides while it acts.
        gathered: of divided parameters, what is whole while it learns.
        acts, learns: what it does.
    """

    weights: int = 0
    state: int = 0
    acting: int = 0
    gathered: int = 0
    acts: bool = False
    learns: bool = False

    @property
    def most(self) -> int:
        """At any time."""
        return self.weights + self.state + self.acting + self.gathered

    @property
    def leaving(self) -> int:
        """What leaves in the other's turn; of one that acts and learns, the weights stay."""
        return self.state + (0 if self.acts and self.learns else self.weights)

    def in_turns(self, *, leaves: bool) -> tuple[int, int]:
        """Held while the rollout acts, and while the actor learns."""
        if not leaves:
            return self.most, self.most
        return (
            self.weights + self.acting if self.acts else 0,
            self.weights + self.state + self.gathered if self.learns else 0,
        )


def memory_per_process(
    role: str,
    spec: PolicySpec,
    precision: str,
    *,
    reference: bool = False,
    rows: int = 0,
    shares: int = 1,
    gathers_again: bool = True,
) -> Need:
    """What a process holds besides activations.

    With P parameters, T of them trained, b bytes each (4 in fp32, 2 in bf16), R rows that a forward
    decides at once and K numbers cached for each:

        rollout                  P b  +  R K b (keys and values)
        actor                    P b  +  12 T (gradients and AdamW's two moments, in fp32)
                                 +  4 T (master copies in fp32, where b = 2)
                                 +  T b (reference weights, where algorithm.kl_beta wants them)
        rollout+actor            as the actor, + R K b
        env                      0: the simulator's own, unknown here

    Where n processes divide the parameters, an actor holds the n-th part of all that, and G b of
    what is gathered to compute with, G parameters at once; all of
    them where they stay gathered until the backward (`gathers_again` is false).

    Parameters a model keeps in fp32 within bf16 (adapters: they need no master copies) are counted
    like the others; activations and rendering are not counted.
    """
    if role == "env":
        return Need()
    size = BYTES[precision]
    acts, learns = "rollout" in role, "actor" in role
    weights, state = spec.parameters * size, 0
    if learns:
        masters = 1 if size < _FP32 else 0
        each = (1 + _ADAMW_MOMENTS + masters) * _FP32 + int(reference) * size
        state = each * spec.trainable_parameters
    gathered = 0
    if learns and shares > 1:
        weights, state = -(-weights // shares), -(-state // shares)
        blocks = spec.gathered_parameters if gathers_again else 0
        gathered = (blocks or spec.parameters) * size
    acting = rows * spec.cache_numbers * size if acts else 0
    return Need(weights, state, acting, gathered, acts=acts, learns=learns)


def load(plan: Plan, rank: int, memory: Mapping[str, Need]) -> float:
    """Bytes on one rank in the fuller of the two turns; a process spreads evenly over the ranks it
    owns."""
    acting, learning = 0.0, 0.0
    for role, process in plan.on(rank):
        turns = memory[role].in_turns(leaves=plan.leaves(role, process))
        acting += turns[0] / len(process.resources)
        learning += turns[1] / len(process.resources)
    return max(acting, learning)


def fullest(plan: Plan, node: int, memory: Mapping[str, Need]) -> float:
    """Bytes on the fullest accelerator of a node."""
    return max((load(plan, rank, memory) for rank in plan.inventory.ranks(node)), default=0.0)


def worth_leaving(plan: Plan, memory: Mapping[str, Need]) -> tuple[str, ...]:
    """Which of "rollout" and "actor" should be asked to leave accelerators to others, so that none
    holds more than it must: no more of them than make a difference."""

    def most(offloads: tuple[str, ...]) -> float:
        asked = replace(plan, offloads=offloads)
        return max(fullest(asked, node, memory) for node in range(len(plan.inventory.nodes)))

    return min(((), ("actor",), ("rollout",), ("rollout", "actor")), key=most)


def on_host(plan: Plan, node: int, memory: Mapping[str, Need]) -> int:
    """Bytes of a node's main memory for what leaves its accelerators."""
    return sum(
        memory[role].leaving
        for role, processes in plan.roles()
        for process in processes
        if plan.leaves(role, process) and plan.seat(process).node == node
    )
