"""Estimate the memory of each process in bytes, and how full each machine gets. Pure.

Policies take turns: the rollout acts, then the actor learns. An offloaded role (`enable_offload`)
needs no device memory during the other's turn. One that stays counts with its peak, as torch caches
what it has allocated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rlcore.contracts.specs import NetworkNeeds, PolicySpec
from rlcore.placement.grammar import Process
from rlcore.placement.plan import Plan

BYTES = {"fp32": 4, "bf16": 2}
PROGRAM = 380 * 2**20
"""Main memory of a process with Python, Ray and torch for CPUs: measured, see docs/cluster.md."""
LEARNING = 70 * 2**20
"""What learning takes besides of main memory: torch's engine, its optimizers, and what its
allocator keeps. Measured likewise."""
CONTEXT = 512 * 2**20
"""Assumed of an accelerator for each process that is on it: CUDA's context with the kernels that
torch and cuBLAS load, or a renderer's. 0.3 to 0.5 GiB are usual."""
NCCL = 512 * 2**20
"""Assumed besides for a policy's process that talks to others over NCCL, for its buffers: actors,
where there are several, sum gradients; weights go to other nodes. 0.2 to 0.5 GiB are usual."""
FREE = 0.1
"""What is to stay free of any memory: torch's allocator can't use all that it holds, libraries want
room to work in, and main memory holds simulators and frames on their way besides."""
_ADAMW_MOMENTS = 2
_FP32 = BYTES["fp32"]
_OWN = 2 + _ADAMW_MOMENTS  # a network's weights and gradients besides
_WHILE_COLLECTED = 3  # copies of stored decisions: as they were made, in one piece, in order
_WHILE_JOINED = 2  # as they came, and in one piece


@dataclass(frozen=True)
class Batch:
    """The largest batches of a process.

    Attributes:
        rows: decided in one forward.
        samples: of a micro-batch.
        taught: samples of a step of supervised training, which makes no micro-batches.
        stored: decisions kept from a rollout until they are learned from.
        replay: bytes of decisions that are kept longer.
    """

    rows: int = 0
    samples: int = 0
    taught: int = 0
    stored: int = 0
    replay: int = 0


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes of a process. All but `host` lies where it computes.

    Attributes:
        weights: the policy's, in every role.
        state: of learning: gradients, optimizer, reference weights.
        acting: needed besides while it acts.
        gathered: of sharded parameters, those gathered while it learns.
        stepping: needed besides while the optimizer steps.
        sample: needed besides for each sample of a forward that is learned from.
        samples, taught: of such a forward, see :class:`Batch`.
        host: in main memory wherever it computes: the program, stored decisions, what
            `cpu_offload` puts there.
        acts, learns: what it does.
    """

    weights: int = 0
    state: int = 0
    acting: int = 0
    gathered: int = 0
    stepping: int = 0
    sample: int = 0
    samples: int = 0
    taught: int = 0
    host: int = 0
    acts: bool = False
    learns: bool = False

    @property
    def learning(self) -> int:
        """Needed besides while it learns: a step comes when the activations are gone."""
        return self.gathered + max(self.sample * max(self.samples, self.taught), self.stepping)

    @property
    def peak(self) -> int:
        """At any time, where it computes: it acts and learns in turns."""
        return self.weights + self.state + max(self.acting, self.learning)

    @property
    def offloaded(self) -> int:
        """What leaves in the other's turn; of one that acts and learns, the weights stay."""
        return self.state + (0 if self.acts and self.learns else self.weights)

    def by_turn(self, *, leaves: bool) -> tuple[int, int]:
        """Held while the rollout acts, and while the actor learns."""
        if not leaves:
            return self.peak, self.peak
        return (
            self.weights + self.acting if self.acts else 0,
            self.weights + self.state + self.learning if self.learns else 0,
        )


def memory_per_process(
    role: str,
    spec: PolicySpec,
    precision: str,
    *,
    reference: bool = False,
    networks: Sequence[NetworkNeeds] = (),
    batch: Batch | None = None,
    shares: int = 1,
    gathers_again: bool = True,
    recomputes: bool = False,
    offloads: bool = False,
    on_cores: bool = False,
) -> MemoryNeed:
    """Estimate the memory of a process.

    With P parameters, T of them trained, b bytes each (4 in fp32, 2 in bf16), R rows that a forward
    decides at once, K numbers cached for each, M samples in a micro-batch, and a bytes of
    activations for each row or sample (`spec.activations`):

        rollout          P b  +  R (K b + a) (keys and values, activations)
                         +  4 N (networks of the algorithm that act, with N parameters)
        actor            P b  +  12 T (gradients and AdamW's two moments, in fp32)
                         +  4 T (master copies in fp32, where b = 2)
                         +  T b (reference weights, where algorithm.kl_beta wants them)
                         +  16 N (networks of the algorithm with N parameters), 20 N with a lagged
                            copy
                         +  the larger of M a, and 4 T on accelerators (where AdamW makes its step
                            for all tensors at once)
        rollout+actor    as the actor; the larger of R (K b + a) and what it learns with
        env              0: the simulator's own, unknown here

    Where n processes shard the parameters, an actor holds the n-th part of all that but M a, and
    G b of what is gathered to compute with, G parameters at once; all of them where they stay
    gathered until the backward (`gathers_again` is false). Where it `offloads` (cpu_offload), the
    parts lie in main memory.

    In main memory there are besides the program, its libraries, and stored decisions.

    Parameters a model keeps in fp32 within bf16 (adapters: they need no master copies) are counted
    like the others. What an accelerator's driver takes comes on top (:func:`driver_memory`).
    """
    if role == "env":
        return MemoryNeed()
    size, batch = BYTES[precision], batch or Batch()
    acts, learns = "rollout" in role, "actor" in role
    weights, state, stepping = spec.parameters * size, 0, 0
    host = PROGRAM + spec.library_bytes
    host += (_WHILE_COLLECTED if acts else _WHILE_JOINED) * batch.stored * spec.sample_bytes
    if learns:
        host += LEARNING + batch.replay
        masters = 1 if size < _FP32 else 0
        each = (1 + _ADAMW_MOMENTS + masters) * _FP32 + int(reference) * size
        state = each * spec.trainable_parameters
        stepping = 0 if on_cores else _FP32 * spec.trainable_parameters
    gathered = 0
    if learns and shares > 1:
        weights, state, stepping = (-(-one // shares) for one in (weights, state, stepping))
        blocks = spec.gathered_parameters if gathers_again else 0
        gathered = (blocks or spec.parameters) * size
        if offloads:
            host, weights, state, stepping = host + weights + state, 0, 0, 0
    if not learns:
        weights += sum(_FP32 * one.parameters for one in networks if one.acts)
    else:
        state += sum((_OWN + (one.lag is not None)) * _FP32 * one.parameters for one in networks)
    made = spec.activations
    per_row = spec.cache_numbers * size + made.passing
    kept = made.recomputed if recomputes else made.kept
    return MemoryNeed(
        weights=weights,
        state=state,
        acting=batch.rows * per_row if acts else 0,
        gathered=gathered,
        stepping=stepping,
        sample=max(kept, made.passing) if learns else 0,
        samples=batch.samples if learns else 0,
        taught=batch.taught if learns else 0,
        host=host,
        acts=acts,
        learns=learns,
    )


def with_samples(memory: Mapping[str, MemoryNeed], samples: int) -> dict[str, MemoryNeed]:
    """The same with micro-batches of so many samples at most."""
    return {role: replace(n, samples=min(samples, n.samples)) for role, n in memory.items()}


def micro_batch_memory(memory: Mapping[str, MemoryNeed]) -> tuple[int, int]:
    """Samples of a micro-batch, and the bytes that each takes while it is learned from."""
    return max((need.samples, need.sample) for need in memory.values())


def fitting_micro_batch(plan: Plan, memory: Mapping[str, MemoryNeed]) -> int | None:
    """What micro-batches come to that are halved until all accelerators hold them; None: even one
    of a single sample is too much."""
    samples, _ = micro_batch_memory(memory)
    nodes = list(enumerate(plan.inventory.nodes))
    while any(
        not fits(most_loaded(plan, index, with_samples(memory, samples)), node.gpu_memory)
        for index, node in nodes
    ):
        if samples <= 1:
            return None
        samples = -(-samples // 2)
    return samples


def with_fitting_micro_batches(
    plan: Plan, memory: Mapping[str, MemoryNeed]
) -> Mapping[str, MemoryNeed]:
    """The need after micro-batches are halved for lack of memory; not possible with sharded
    parameters."""
    samples = fitting_micro_batch(plan, memory)
    return with_samples(memory, samples) if samples and plan.shards == 1 else memory


def usable(have: int) -> float:
    """The part of so many bytes that a run may use."""
    return (1 - FREE) * have


def fits(need: float, have: int) -> bool:
    """Whether memory of `have` bytes (0: unknown) holds so many."""
    return not have or need <= usable(have)


def driver_memory(plan: Plan, role: str, process: Process) -> int:
    """Bytes that CUDA and NCCL take of each accelerator of a process, whatever it does."""
    if plan.is_on_cores(process):
        return 0
    alone = len(plan.inventory.nodes) == 1 and (
        "actor" not in role or plan.world_size("actor") == 1
    )
    return CONTEXT if role == "env" or alone else CONTEXT + NCCL


def memory_on_rank(plan: Plan, rank: int, memory: Mapping[str, MemoryNeed]) -> float:
    """Bytes on one rank in the fuller of the two turns; a process spreads evenly over the ranks it
    owns."""
    always, acting, learning = 0, 0.0, 0.0
    for role, process in plan.processes_on(rank):
        always += driver_memory(plan, role, process)
        turns = memory[role].by_turn(leaves=plan.is_offloaded(role, process))
        acting += turns[0] / len(process.resources)
        learning += turns[1] / len(process.resources)
    return always + max(acting, learning)


def most_loaded(plan: Plan, node: int, memory: Mapping[str, MemoryNeed]) -> float:
    """Bytes on the fullest accelerator of a node."""
    return max(
        (memory_on_rank(plan, rank, memory) for rank in plan.inventory.ranks(node)), default=0.0
    )


def main_memory(plan: Plan, node: int, memory: Mapping[str, MemoryNeed]) -> int:
    """Bytes of a node's main memory: all of processes on cores, and of the others what lies there
    and what leaves accelerators."""
    total = 0
    for role, processes in plan.roles():
        for process in processes:
            if plan.allocation(process).node == node:
                need = memory[role]
                total += need.host
                if plan.is_on_cores(process):
                    total += need.peak
                elif plan.is_offloaded(role, process):
                    total += need.offloaded
    return total


def format_bytes(count: float) -> str:
    """Bytes in words: `1.50 GiB`, `3.00 MiB`."""
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.2f} MiB"
