"""Estimate the memory of each process and of each machine, in bytes. Pure.

Rollout and actor take turns: the rollout acts, then the actor learns. A role with `enable_offload`
needs no accelerator memory during the other role's turn. A role without it counts with its peak in
both turns, because torch's caching allocator does not return freed memory to the device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rlcore.contracts.specs import NetworkNeeds, PolicySpec
from rlcore.placement.grammar import Process
from rlcore.placement.plan import Plan
from rlcore.utils.malloc import KEPT

BYTES = {"fp32": 4, "bf16": 2}
PROGRAM = 380 * 2**20
"""Main memory of a process with Python, Ray and torch for CPUs (from `benchmarks/memory.py`)."""
LEARNING = 70 * 2**20
"""Further main memory of a process that learns: torch's autograd engine and optimizers (measured in
the same way)."""
CONTEXT = 512 * 2**20
"""Assumed accelerator memory of each process's context: CUDA's, with the kernels that torch and
cuBLAS load, or a renderer's. 0.3 to 0.5 GiB are usual."""
NCCL = 512 * 2**20
"""Assumed accelerator memory of NCCL's buffers, in each policy process that communicates over NCCL:
several actor ranks sum gradients, and weights are sent to other nodes. 0.2 to 0.5 GiB are usual."""
FREE = 0.1
"""Fraction of any memory that must stay free: torch's allocator loses some to fragmentation,
libraries need workspace, and main memory also holds simulators and frames in transit."""
_ADAMW_MOMENTS = 2
_FP32 = BYTES["fp32"]
_NETWORK_COPIES = 2 + _ADAMW_MOMENTS  # weights, gradients and moments of a network
_WHILE_COLLECTED = 3  # copies of stored decisions: as collected, concatenated, and reordered
_WHILE_JOINED = 2  # copies of decisions or demonstrations: as received, and concatenated


@dataclass(frozen=True)
class Batch:
    """The largest batches of a process.

    Attributes:
        rows: decisions in one forward of the rollout.
        samples: samples of a micro-batch.
        sft_samples: samples of a step of supervised training, which has no micro-batches.
        stored: decisions stored from a rollout until the update that learns from them.
        replay: bytes of the replay, whose decisions are stored for longer.
        demonstrations: frames of the demonstrations that each process that learns holds.
    """

    rows: int = 0
    samples: int = 0
    sft_samples: int = 0
    stored: int = 0
    replay: int = 0
    demonstrations: int = 0


@dataclass(frozen=True)
class MemoryNeed:
    """Memory of a process in bytes. All of it except `host` is on the device that it computes on.

    Attributes:
        weights: weights of the policy, and in a process that does not learn, of the algorithm's
            networks that act.
        state: state of learning: gradients, optimizer state, master copies, reference weights, the
            average of the weights, and the algorithm's networks with theirs.
        acting: further memory while the process acts: activations and cached keys and values.
        gathered: parameters that sharding gathers while the process learns.
        stepping: temporary memory of the optimizer's step.
        sample: activations of one sample in a forward with a backward pass.
        samples, sft_samples: number of samples in such a forward, see :class:`Batch`.
        host: main memory, whether or not the process computes there: the program, stored decisions
            and demonstrations, freed memory that the allocator keeps, and the shards that
            `cpu_offload` moves there.
        acts, learns: whether the process has the role of the rollout, of the actor.
    """

    weights: int = 0
    state: int = 0
    acting: int = 0
    gathered: int = 0
    stepping: int = 0
    sample: int = 0
    samples: int = 0
    sft_samples: int = 0
    host: int = 0
    acts: bool = False
    learns: bool = False

    @property
    def learning(self) -> int:
        """Bytes that the process needs while it learns, in addition to its state.

        Activations and the optimizer's temporary memory never coincide: the step comes after the
        backward pass, when the activations are freed.
        """
        return self.gathered + max(self.sample * max(self.samples, self.sft_samples), self.stepping)

    @property
    def peak(self) -> int:
        """Peak bytes on the device that it computes on; acting and learning alternate."""
        return self.weights + self.state + max(self.acting, self.learning)

    @property
    def offloaded(self) -> int:
        """Bytes that move to main memory in the other role's turn.

        A process that acts and learns needs its weights in both turns, so they are not offloaded.
        """
        return self.state + (0 if self.acts and self.learns else self.weights)

    def by_turn(self, *, offloads: bool) -> tuple[int, int]:
        """Return bytes on the device while the rollout acts, and while the actor learns.

        Args:
            offloads: whether the process offloads the memory that it does not need in a turn.
        """
        if not offloads:
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
    averaged: bool = False,
    networks: Sequence[NetworkNeeds] = (),
    batch: Batch | None = None,
    shares: int = 1,
    reshards: bool = True,
    recomputes: bool = False,
    offloads: bool = False,
    on_cores: bool = False,
) -> MemoryNeed:
    """Estimate the memory of a process.

    Let P be the number of parameters, T of them trained, with b bytes each (4 in fp32, 2 in bf16);
    R the rows of a forward of the rollout, K the numbers cached for each row, M the samples of a
    micro-batch (or of a supervised step, if larger), and a the bytes of activations for each row
    or sample (`spec.activations`). Then the bytes are:

        rollout          P b  +  R (K b + a) (cached keys and values, activations)
                         +  4 N (networks of the algorithm that act, with N parameters)
        actor            P b  +  12 T (gradients and AdamW's two moments, in fp32)
                         +  4 T (master copies in fp32, if b = 2)
                         +  T b (reference weights, if algorithm.kl_beta needs them)
                         +  T (4 + b) (moving average and the weights that it follows, if the
                            algorithm needs one)
                         +  16 N (networks of the algorithm with N parameters), 20 N with a target
                            network
                         +  the larger of M a, and 4 T on accelerators (where AdamW steps all
                            tensors at once, with a temporary copy)
        rollout+actor    as the actor, with the larger of R (K b + a) and the actor's last term
        env              0: the simulator's memory is not known here

    If n processes shard the parameters, an actor holds 1/n of its policy's terms except M a, and in
    addition G b for the G parameters that are gathered at a time; G = P if they stay gathered until
    the backward pass (`reshards` is false), or the policy names no blocks. With `offloads`
    (`cpu_offload`) the shards are in main memory.

    Main memory also holds the program, its libraries, stored decisions, the replay and
    demonstrations, and up to :data:`rlcore.utils.malloc.KEPT` bytes that the process has freed: as
    many as it uses in turns, for copies of stored decisions and, on cores, for activations. With
    `recomputes` they return to the system.

    A copy of the policy's encoder, which is an algorithm's network too, counts as P b, its upper
    bound.

    Parameters that a bf16 model holds in fp32 (adapters, which need no master copies) are counted
    like the others. The driver's memory on an accelerator is not included
    (:func:`driver_memory`).

    Args:
        role: "rollout", "actor", "rollout+actor" or "env".
        spec: spec of the policy.
        precision: "fp32" or "bf16".
        reference: whether the actor holds reference weights.
        averaged: whether the actor holds a moving average of the policy's weights.
        networks: networks of the algorithm.
        batch: largest batches of the process; None for empty ones.
        shares: number of processes that shard the parameters.
        reshards: whether sharded parameters are gathered again for the backward pass.
        recomputes: whether gradient checkpointing recomputes activations.
        offloads: whether the actor's shards are in main memory.
        on_cores: whether the process computes on CPU cores.
    """
    if role == "env":
        return MemoryNeed()
    size = BYTES[precision]
    batch = batch or Batch()
    acts = "rollout" in role
    learns = "actor" in role
    weights = spec.parameters * size
    state = 0
    stepping = 0
    gathered = 0
    collected = (_WHILE_COLLECTED if acts else _WHILE_JOINED) * batch.stored * spec.sample_bytes
    host = PROGRAM + spec.library_bytes + collected
    if learns:
        host += LEARNING + batch.replay
        host += _WHILE_JOINED * batch.demonstrations * _demonstration_bytes(spec)
        masters = 1 if size < _FP32 else 0
        per_parameter = (1 + _ADAMW_MOMENTS + masters) * _FP32 + int(reference) * size
        per_parameter += int(averaged) * (_FP32 + size)
        state = per_parameter * spec.trainable_parameters
        stepping = 0 if on_cores else _FP32 * spec.trainable_parameters
    if learns and shares > 1:
        weights = -(-weights // shares)  # rounded up, as are the next two
        state = -(-state // shares)
        stepping = -(-stepping // shares)
        blocks = spec.gathered_parameters if reshards else 0
        gathered = (blocks or spec.parameters) * size
        if offloads:
            host += weights + state
            weights = 0
            state = 0
            stepping = 0
    for network in networks:
        if network.encodes:
            weights += spec.parameters * size
        elif learns:
            copies = _NETWORK_COPIES + (network.polyak is not None)
            state += copies * _FP32 * network.parameters
        elif network.acts_with:
            weights += _FP32 * network.parameters
    activations = spec.activations
    per_row = spec.cache_size * size + activations.transient
    per_sample = activations.recomputed if recomputes else activations.stored
    need = MemoryNeed(
        weights=weights,
        state=state,
        acting=batch.rows * per_row if acts else 0,
        gathered=gathered,
        stepping=stepping,
        sample=max(per_sample, activations.transient) if learns else 0,
        samples=batch.samples if learns else 0,
        sft_samples=batch.sft_samples if learns else 0,
        host=host,
        acts=acts,
        learns=learns,
    )
    if recomputes:
        return need
    freed = collected + (max(need.acting, need.learning) if on_cores else 0)
    return replace(need, host=host + min(KEPT, freed))


def _demonstration_bytes(spec: PolicySpec) -> int:
    """Return the bytes of one frame of a demonstration as a sample for training.

    It has the policy's inputs, of which a stored decision is the upper bound, H target actions of A
    entries in fp32 with a mask of one byte each, a weight, and two numbers of 8 bytes that say
    where it is.
    """
    return spec.sample_bytes + spec.action_horizon * (_FP32 * spec.action_dim + 1) + 3 * 8


def with_samples(memory: Mapping[str, MemoryNeed], samples: int) -> dict[str, MemoryNeed]:
    """Return the memory of each role with micro-batches of at most `samples` samples."""
    return {
        role: replace(need, samples=min(samples, need.samples)) for role, need in memory.items()
    }


def micro_batch_memory(memory: Mapping[str, MemoryNeed]) -> tuple[int, int]:
    """Return the samples of a micro-batch, and the bytes of activations that each one takes."""
    return max((need.samples, need.sample) for need in memory.values())


def fitting_micro_batch(plan: Plan, memory: Mapping[str, MemoryNeed]) -> int | None:
    """Return the size to which micro-batches must be halved to fit on all accelerators.

    None if even a micro-batch of one sample does not fit.
    """
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
    """Return the memory of each role after micro-batches are halved until they fit.

    It is returned unchanged if no size fits, or if parameters are sharded: then micro-batches are
    not halved.
    """
    samples = fitting_micro_batch(plan, memory)
    return with_samples(memory, samples) if samples and plan.shards == 1 else memory


def usable_memory(capacity: int) -> float:
    """Return the bytes that a run may use of a memory: all but the fraction `FREE`."""
    return (1 - FREE) * capacity


def fits(need: float, capacity: int) -> bool:
    """Return whether `need` bytes fit into a memory; true if its capacity is 0 (unknown)."""
    return not capacity or need <= usable_memory(capacity)


def driver_memory(plan: Plan, role: str, process: Process) -> int:
    """Return the bytes that CUDA and NCCL take on each accelerator of a process; 0 on cores.

    NCCL is not counted for envs, nor on a single node for rollout processes and a lone actor rank.
    """
    if plan.is_on_cores(process):
        return 0
    without_nccl = len(plan.inventory.nodes) == 1 and (
        "actor" not in role or plan.world_size("actor") == 1
    )
    return CONTEXT if role == "env" or without_nccl else CONTEXT + NCCL


def memory_on_rank(plan: Plan, rank: int, memory: Mapping[str, MemoryNeed]) -> float:
    """Return the bytes on one rank in the fuller of the two turns.

    The memory of a process is divided evenly among the ranks that it owns.
    """
    always = 0
    acting = 0.0
    learning = 0.0
    for role, process in plan.processes_on(rank):
        always += driver_memory(plan, role, process)
        in_rollout, in_update = memory[role].by_turn(offloads=plan.is_offloaded(role, process))
        acting += in_rollout / len(process.resources)
        learning += in_update / len(process.resources)
    return always + max(acting, learning)


def most_loaded(plan: Plan, node: int, memory: Mapping[str, MemoryNeed]) -> float:
    """Return the bytes on the fullest accelerator of a node; 0 without accelerators."""
    return max(
        (memory_on_rank(plan, rank, memory) for rank in plan.inventory.ranks(node)), default=0.0
    )


def main_memory(plan: Plan, node: int, memory: Mapping[str, MemoryNeed]) -> int:
    """Return the bytes that a node's processes need in main memory.

    A process on cores has all its memory there; any other one its `host` part and the memory that
    it offloads.
    """
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
    """Format a number of bytes: `1.50 GiB`, or below 1 GiB `3.00 MiB`."""
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.2f} MiB"
