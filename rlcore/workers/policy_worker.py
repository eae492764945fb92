"""Hold a policy: the base of the workers that have one.

    rollout_worker   acts
    actor_worker     learns
    fused_worker     both, over one set of weights

Knows no simulator. The tensor library is imported where a method needs it, so that a process
without one can import this module.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore.config.schema import ActorConfig, AlgorithmConfig, ModelConfig
from rlcore.contracts.errors import AlgorithmError, PolicyError, WorkerError
from rlcore.contracts.specs import AlgorithmNeeds, EnvSpec, PolicySpec, ReplayNeeds
from rlcore.numerics.mkl import BatchInvariance
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_component, wrapped
from rlcore.validation.faults import require_made

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from rlcore.contracts.protocols import Algorithm, Policy
    from rlcore.contracts.trajectory import Trajectory
    from rlcore.learner.offload import HostCopies
    from rlcore.transport.transports import Connections

TRIED_WHOLE = 2 * 2**30
"""Bytes of a policy up to which it is saved, loaded and compared before the first rollout: seconds
of a local disk. Of a larger one all but the data of its weights is tried."""


@dataclass(frozen=True)
class PolicyWorkerSettings:
    """Settings of a policy worker.

    Attributes:
        policy_target, algorithm_target: factories, `"module:attr"`; no algorithm ("") where the
            policy is evaluated only.
        actor, algorithm: their settings.
        env_spec: what the policy will see.
        seed: root seed.
        threads: torch threads of this process.
        acts: whether networks of the algorithm act with the policy.
        keeps: the replay of who learns; None: there is none.
        shards: how many actor processes shard one copy of the parameters; 1: each holds all.
        offload: whether its device memory is offloaded to the host while others work there.
        host: what other nodes know its node by; a backend that spans nodes sets it in the worker's
            process. A host name may resolve to a loopback address.
    """

    policy_target: str
    algorithm_target: str
    actor: ActorConfig
    algorithm: AlgorithmConfig
    env_spec: EnvSpec
    seed: int
    threads: int
    acts: bool = False
    keeps: ReplayNeeds | None = None
    shards: int = 1
    offload: bool = False
    host: str = "127.0.0.1"


class PolicyWorker:
    """Holds a policy. What was offloaded (`suspend`) moves back by itself when it is used: a method
    that computes uses `self.policy`."""

    def __init__(self, settings: PolicyWorkerSettings) -> None:
        self._settings = settings
        self._policy: Policy | None = None
        self._folder: str | None = None  # that it was loaded from
        self._full_checksums: dict[str, str] = {}  # from when this process had all of them
        self._placed_yet = self._saved_alike = False
        self._away: HostCopies | None = None
        # gathered by who acts, used up by who learns; where one does both it stays where it is
        self._trajectory: Trajectory | None = None  # also if none of the columns came its way
        self._gathered = False
        self._connections: Connections | None = None

    def load_torch(self) -> None:
        """Load the tensor library as this process needs it (idempotent)."""
        # Threads that wait must not spin: simulators share these cores. Read by the OpenMP
        # runtime when the tensor library loads it, so set before.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        if self._settings.offload:
            # allocating and freeing pieces of all sizes would fragment the allocator
            os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
        import torch  # noqa: F401

    def start(self) -> PolicySpec:
        """Build the policy (idempotent): from its checkpoint, or with keyed random weights."""
        if self._policy is None:
            self.load_torch()
            import torch

            # Ray sets OMP_NUM_THREADS for its workers; what was planned must hold
            torch.set_num_threads(self._settings.threads)
            self._take(self.make(self._settings.actor.model))
        return self._held.spec

    @property
    def policy(self) -> Policy:
        """The policy, on its device."""
        self._arrive()
        return self._held

    @property
    def _held(self) -> Policy:
        """The policy wherever it is: on the device, or offloaded."""
        if self._policy is None:
            raise WorkerError("the policy worker was asked to work before it was started")
        return self._policy

    @property
    def device(self) -> torch.device:
        """The device on which the policy computes."""
        import torch

        return torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def _algorithm(self) -> Algorithm:
        """The algorithm, made anew."""
        config, target = self._settings.algorithm, self._settings.algorithm_target
        made: Algorithm = load_target(target)(config)
        named, holds = f"algorithm {config.name}", ("needs", AlgorithmNeeds)
        require_made(made, named, target, "an algorithm", holds, AlgorithmError)
        made = wrapped(made, config.wrappers, "target")
        return made

    def save(self, path: str, *, trial: bool = False) -> None:
        """Write the policy alone, loadable as `actor.model.model_path`.

        Args:
            trial: whether the folder is given up again, see
                :mod:`rlcore.training.checkpoint_trial`: of a policy of more than
                :data:`TRIED_WHOLE` bytes the weights are written without their data.
        """
        from rlcore.files.outline import without_data
        from rlcore.learner.acting import as_if_learned
        from rlcore.run_folder.checkpoint import EARLIER, NOT_BEGUN, writing
        from rlcore.run_folder.env_facts import write_env_facts
        from rlcore.validation.policy import checked_files, saving

        outline = trial and self._policy_bytes() > TRIED_WHOLE
        with writing(Path(path), hint=NOT_BEGUN if trial else EARLIER), ExitStack() as meanwhile:
            if trial:
                meanwhile.enter_context(as_if_learned(self.policy))
            if outline:
                meanwhile.enter_context(without_data())
            with saving(self.policy.spec):
                self.policy.save_pretrained(Path(path))
            checked_files(self.policy.spec, Path(path))
            if not outline:
                self._check_saved(path)
            write_env_facts(Path(path), self._settings.env_spec)

    def _policy_bytes(self) -> int:
        """Return the bytes of all parameters and buffers, of those that are sharded too."""
        from torch import nn

        policy = self._held
        assert isinstance(policy, nn.Module)  # as every policy is
        tensors = [*policy.parameters(), *policy.buffers()]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def _check_saved(self, path: str) -> None:
        """Load what was saved and compare it with what is held, once. Not where ranks shard a
        policy, or main memory has no room for a second one and the file it is read from."""
        if self._saved_alike or self._settings.shards > 1:
            return
        import torch

        from rlcore.placement.inventory import free_memory
        from rlcore.validation.policy import checked_saved

        size = sum(file.stat().st_size for file in Path(path).rglob("*"))
        if free_memory() < 2 * size:
            return

        def load() -> Any:
            with torch.random.fork_rng(devices=[]):
                return self.make(self._settings.actor.model.beginning_with(path))

        folder = self._folder
        try:
            checked_saved(self._held, load)
        finally:
            self._folder = folder  # the policy that is held was not loaded from `path`
        self._saved_alike = True

    def load(self, path: str) -> None:
        """Replace the policy by a saved one: weights, and whatever else it saves (statistics)."""
        model = self._settings.actor.model.beginning_with(path)
        self._policy = None  # two of them may be more than there is room for
        self._copies.forget()
        self._take(self.make(model))

    def checksums(self) -> dict[str, str]:
        """Of the policy as it was loaded or drawn: of parameters and buffers by name, and of the
        settings, statistics and tokenizers beside the weights by path."""
        from torch import nn

        from rlcore.files.digests import digests
        from rlcore.transport.checksums import checksums

        policy = self._held
        assert isinstance(policy, nn.Module)  # as every policy is
        beside = digests(Path(self._folder), (".json", ".model")) if self._folder else {}
        named = [*policy.named_parameters(), *policy.named_buffers()]
        here = ((name, one) for name, one in named if name not in self._full_checksums)
        return beside | self._full_checksums | checksums(here)

    def check_batch_invariance(self, forward_batch: int | None) -> BatchInvariance:
        """Check batch invariance in this process; see
        :mod:`rlcore.numerics.batch_invariance`.

        Args:
            forward_batch: rows of a forward, where decisions are made at a fixed number; None: it
                only learns, or they are not.
        """
        from rlcore.numerics.batch_invariance import check_batch_invariance

        return check_batch_invariance(
            self.policy, self._settings.env_spec, self.device.type, forward_batch
        )

    def _use_up(self, doing: str) -> Trajectory | None:
        """Take what was gathered, and drop it here; None: no column of it came this way.

        Raises:
            WorkerError: nothing was gathered since the last time.
        """
        if not self._gathered:
            raise WorkerError(f"asked to {doing} without a trajectory")
        trajectory, self._trajectory, self._gathered = self._trajectory, None, False
        return trajectory

    def _connected(self, timeout: float, bucket: int) -> Connections:
        """Return this process's connections, with the process groups of earlier transfers."""
        from rlcore.transport.transports import Connections

        if self._connections is None:
            self._connections = Connections(timeout, bucket)
        return self._connections

    def stop(self) -> None:
        """Stop; nothing outlives the process."""

    # -- memory that others may have meanwhile ------------------------------------------------

    def suspend(self) -> None:
        """Offload to host memory until the next computation, if the settings say so."""
        if self._settings.offload and self._placed_yet:
            self._copies.offload(self._leaving(), self.device)

    def _leaving(self) -> Iterator[Tensor]:
        """What is offloaded."""
        from torch import nn

        policy = self._held
        assert isinstance(policy, nn.Module)  # as every policy is
        yield from policy.parameters()
        yield from policy.buffers()

    def _arrive(self) -> None:
        """Move everything to the device that is not there."""
        import torch

        try:
            if not self._placed_yet and self._policy is not None:
                self._place()
            if self._away is not None:
                self._away.restore()
        except torch.OutOfMemoryError as error:
            raise WorkerError(
                f"what was moved to the host does not fit on the accelerator again: {error}",
                hint="--dry-run shows who shares it: enable_offload of the others, or another "
                "cluster.component_placement",
            ) from None

    @property
    def _copies(self) -> HostCopies:
        if self._away is None:
            from rlcore.learner.offload import HostCopies

            self._away = HostCopies()
        return self._away

    def _take(self, policy: Any) -> None:
        """Hold a policy that was made on the host. One that leaves the device to others waits
        there: they may be at work."""
        self._policy, self._placed_yet = policy, False
        if not self._settings.offload:
            self._place()

    def _place(self) -> None:
        """Put the policy where it computes."""
        self._policy, self._placed_yet = self._placed(self._policy), True

    def _placed(self, policy: Any) -> Any:
        """A policy that was made on the host, where it is to be."""
        return policy.to(self.device)

    def make(self, model: ModelConfig) -> Any:
        """A policy, on the CPU, with what of the algorithm acts. What no checkpoint holds (heads,
        adapters) is drawn by key, whatever was drawn in this process before. Typed loosely, as it
        is a module too."""
        import torch

        from rlcore.contracts.rng import generator

        settings, self._folder = self._settings, model.model_path
        torch.manual_seed(int(generator(settings.seed, "weights").integers(2**31)))
        target, named = settings.policy_target, f"model {model.model_type}"
        policy = load_target(target)(model, env_spec=settings.env_spec)
        require_made(policy, named, target, "a policy", ("spec", PolicySpec), PolicyError)
        if settings.actor.trainable:
            load_component("function", "train_only")(policy, settings.actor.trainable)
        if settings.actor.fsdp_config.gradient_checkpointing:
            policy.set_checkpointing(True)
        if not settings.acts:
            return policy
        from rlcore.learner.acting import with_acting_networks

        algorithm, config = self._algorithm(), settings.algorithm
        return with_acting_networks(
            policy,
            algorithm,
            settings.env_spec,
            named=config.name,
            seed=settings.seed,
            folder=model.model_path,
        )
