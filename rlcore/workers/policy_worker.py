"""Hold a policy: the base class of the workers that have one.

    rollout_worker   acts
    actor_worker     learns
    fused_worker     does both with one set of weights

Methods import torch where they need it, so that this module can be imported without torch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore.config.schema import ActorConfig, AlgorithmConfig, ModelConfig
from rlcore.contracts.errors import AlgorithmError, PolicyError, WorkerError
from rlcore.contracts.specs import AlgorithmNeeds, EnvSpec, PolicySpec, ReplayNeeds
from rlcore.plugins.import_target import load_target
from rlcore.utils.malloc import keep_freed_memory
from rlcore.utils.mkl import BatchInvariance
from rlcore.utils.spans import Spans, Taken
from rlcore.validation.faults import require_component

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from rlcore.contracts.protocols import Algorithm, Policy
    from rlcore.contracts.trajectory import Trajectory
    from rlcore.learner.offload import HostCopies
    from rlcore.transport.transports import RouteConnections


@dataclass(frozen=True)
class PolicyWorkerSettings:
    """Settings of a policy worker.

    Attributes:
        policy_target, algorithm_target: factories, `"module:attr"`; `algorithm_target` is "" where
            the policy is only evaluated.
        actor, algorithm: settings of the actor, including the model, and of the algorithm.
        env_spec: spec of the env whose observations the policy gets.
        seed: root seed.
        total_updates: number of updates after which the run ends; None: there is no limit.
        threads: torch threads of this process.
        acts: whether networks of the algorithm act with the policy.
        replay_needs: what the learner's replay stores; None: there is no replay.
        shards: number of actor processes that shard one copy of the parameters; 1: each process
            holds all parameters.
        offload: whether the worker offloads its device memory to the host while other workers use
            the device.
        traced: whether the worker records what it does (`runner.trace`).
        host: address of the worker's node for other nodes. A backend that spans nodes sets it in
            the worker's process, as a host name may resolve to a loopback address.
    """

    policy_target: str
    algorithm_target: str
    actor: ActorConfig
    algorithm: AlgorithmConfig
    env_spec: EnvSpec
    seed: int
    threads: int
    acts: bool = False
    replay_needs: ReplayNeeds | None = None
    total_updates: int | None = None
    shards: int = 1
    offload: bool = False
    traced: bool = False
    host: str = "127.0.0.1"


class PolicyWorker:
    """Base class of a worker with a policy.

    Methods that compute use `self.policy`, which first restores what :meth:`suspend` offloaded.
    Methods that can work on offloaded weights use `self._current_policy`.
    """

    def __init__(self, settings: PolicyWorkerSettings) -> None:
        self._settings = settings
        self.spans = Spans(settings.traced)
        self._policy: Policy | None = None
        self._folder: str | None = None  # the policy was loaded from it
        self._full_checksums: dict[str, str] = {}  # of parameters, before sharding
        self._on_device = False
        self._save_verified = False
        self._copies: HostCopies | None = None  # created on first use
        # set by the rollout role and consumed by the actor role; the fused worker has both
        self._trajectory: Trajectory | None = None  # None also if this rank got no columns
        self._gathered = False
        self._connections: RouteConnections | None = None

    def take_spans(self) -> Taken:
        """Return what this worker recorded since the last call, and forget it."""
        return self.spans.take()

    def load_torch(self) -> None:
        """Import torch with the environment variables that this process needs (idempotent)."""
        # Waiting threads must not spin, as simulators share these cores. The OpenMP runtime reads
        # the variable when torch loads it.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        if self._settings.offload:
            # offloading and restoring tensors of many sizes would fragment the allocator
            os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
        import torch  # noqa: F401

    def start(self) -> PolicySpec:
        """Build the policy from its checkpoint, or with keyed random weights; return its spec.

        Idempotent.
        """
        if self._policy is None:
            self.load_torch()
            import torch

            # gradient checkpointing trades time for memory, which must return to the system
            if not self._settings.actor.fsdp_config.gradient_checkpointing:
                keep_freed_memory()
            # overrides OMP_NUM_THREADS, which Ray sets for its workers
            torch.set_num_threads(self._settings.threads)
            self._adopt(self.make(self._settings.actor.model))
        return self._current_policy.spec

    @property
    def policy(self) -> Policy:
        """The policy, on its device."""
        self._restore_to_device()
        return self._current_policy

    @property
    def _current_policy(self) -> Policy:
        """The policy, wherever its weights are: on the device or offloaded."""
        if self._policy is None:
            raise WorkerError("the policy worker was called before it was started")
        return self._policy

    @property
    def device(self) -> torch.device:
        """The device on which the policy computes."""
        import torch

        return torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def _algorithm(self) -> Algorithm:
        """Return a new instance of the algorithm.

        Raises:
            AlgorithmError: the factory returns something other than an algorithm.
        """
        config = self._settings.algorithm
        target = self._settings.algorithm_target
        algorithm: Algorithm = load_target(target)(config)
        require_component(
            algorithm,
            f"algorithm {config.name}",
            target,
            "an algorithm",
            ("needs", AlgorithmNeeds),
            AlgorithmError,
        )
        if not config.wrappers:
            return algorithm
        from rlcore.config.wrappers import wrap_algorithm

        return wrap_algorithm(algorithm, config.wrappers)

    def save(self, path: str, *, trial: bool = False) -> None:
        """Save the policy, without the learner, to be loaded as `actor.model.model_path`.

        Args:
            path: folder to write.
            trial: whether the folder is a trial that is deleted again, see
                :mod:`rlcore.training.checkpoint_trial`.
        """
        from rlcore.learner.acting import as_if_learned
        from rlcore.runs.checkpoint import EARLIER, NOT_BEGUN, writing
        from rlcore.runs.env_facts import write_env_facts
        from rlcore.validation.policy import checked_files, saving_errors

        with (
            writing(Path(path), hint=NOT_BEGUN if trial else EARLIER),
            as_if_learned(self.policy) if trial else nullcontext(),
        ):
            with saving_errors(self.policy.spec):
                self.policy.save_pretrained(Path(path))
            checked_files(self.policy.spec, Path(path))
            self._check_saved(path)
            write_env_facts(Path(path), self._settings.env_spec)

    def _check_saved(self, path: str) -> None:
        """Load the policy that was saved and compare it with this worker's.

        The check is repeated until it has passed once. It is skipped for a sharded policy, and if
        main memory has no room for a second policy and the files that it is read from.
        """
        if self._save_verified or self._settings.shards > 1:
            return
        import torch

        from rlcore.placement.inventory import free_memory
        from rlcore.validation.policy import checked_saved

        size = sum(file.stat().st_size for file in Path(path).rglob("*"))
        if free_memory() < 2 * size:
            return

        def load() -> Any:
            with torch.random.fork_rng(devices=[]):
                return self.make(self._settings.actor.model.with_weights_from(path))

        folder = self._folder
        try:
            checked_saved(self._current_policy, load)
        finally:
            self._folder = folder  # make() has set it to `path`
        self._save_verified = True

    def load(self, path: str) -> None:
        """Replace the policy by a saved one: its weights, statistics and whatever else it saves."""
        model = self._settings.actor.model.with_weights_from(path)
        self._policy = None  # memory may not suffice for two
        self._host_copies.forget()
        self._adopt(self.make(model))

    def checksums(self) -> dict[str, str]:
        """Return checksums of the policy as it was loaded or initialised.

        Returns:
            checksums of whole parameters and buffers by name, and of the settings, statistics and
            tokenizers in the policy's folder by path.
        """
        from torch import nn

        from rlcore.files.digests import digests
        from rlcore.transport.checksums import checksums

        policy = self._current_policy
        assert isinstance(policy, nn.Module)  # as every policy is
        files = digests(Path(self._folder), (".json", ".model")) if self._folder else {}
        tensors = [*policy.named_parameters(), *policy.named_buffers()]
        unsharded = [pair for pair in tensors if pair[0] not in self._full_checksums]
        return files | self._full_checksums | checksums(unsharded)

    def check_batch_invariance(self, forward_batch: int | None) -> BatchInvariance:
        """Check batch invariance in this process; see :mod:`rlcore.rollout.batch_invariance`.

        Args:
            forward_batch: fixed number of rows of the forward passes that decide; None: the number
                is not fixed, or this worker only learns.
        """
        from rlcore.rollout.batch_invariance import check_batch_invariance

        return check_batch_invariance(
            self.policy, self._settings.env_spec, self.device.type, forward_batch
        )

    def _consume_trajectory(self, purpose: str) -> Trajectory | None:
        """Return the trajectory and drop it here; None if this rank got no columns of it.

        Args:
            purpose: what the trajectory is needed for, such as "update", for the error.

        Raises:
            WorkerError: no trajectory was gathered since the last call.
        """
        if not self._gathered:
            raise WorkerError(f"asked to {purpose} without a trajectory")
        trajectory = self._trajectory
        self._trajectory = None
        self._gathered = False
        return trajectory

    def _weight_connections(self, timeout: float, bucket: int) -> RouteConnections:
        """Return this process's connections, which reuse the process groups of earlier transfers.

        The arguments have an effect only in the first call.
        """
        from rlcore.transport.transports import RouteConnections

        if self._connections is None:
            self._connections = RouteConnections(timeout, bucket)
        return self._connections

    def stop(self) -> None:
        """Do nothing: the worker has no resources that outlive its process."""

    # -- offloading ---------------------------------------------------------------------------

    def suspend(self) -> None:
        """Offload to host memory until the next computation, if the settings ask for it."""
        if self._settings.offload and self._on_device:
            self._host_copies.offload(self._tensors_to_offload(), self.device)

    def _tensors_to_offload(self) -> Iterator[Tensor]:
        """Yield the tensors to offload."""
        from torch import nn

        policy = self._current_policy
        assert isinstance(policy, nn.Module)  # as every policy is
        yield from policy.parameters()
        yield from policy.buffers()

    def _restore_to_device(self) -> None:
        """Move the policy, and all that was offloaded, to the device.

        Raises:
            WorkerError: the device has too little free memory.
        """
        import torch

        try:
            if not self._on_device and self._policy is not None:
                self._place_policy()
            if self._copies is not None:
                self._copies.restore()
        except torch.OutOfMemoryError as error:
            raise WorkerError(
                f"tensors that were offloaded to the host do not fit on the accelerator: {error}",
                hint="--dry-run shows which processes share it: set their enable_offload, or "
                "choose another cluster.component_placement",
            ) from None

    @property
    def _host_copies(self) -> HostCopies:
        """The offloaded tensors' copies on the host, created on first use."""
        if self._copies is None:
            from rlcore.learner.offload import HostCopies

            self._copies = HostCopies()
        return self._copies

    def _adopt(self, policy: Any) -> None:
        """Store a policy that was built on the host, and move it to the device.

        With offloading, the policy remains on the host until it is used, because other workers may
        use the device now.
        """
        self._policy = policy
        self._on_device = False
        if not self._settings.offload:
            self._place_policy()

    def _place_policy(self) -> None:
        """Move the policy to its device."""
        self._policy = self._to_device(self._policy)
        self._on_device = True

    def _to_device(self, policy: Any) -> Any:
        """Return a policy that was built on the host, moved to its device."""
        return policy.to(self.device)

    def make(self, model: ModelConfig) -> Any:
        """Build a policy on the CPU, including the algorithm's acting networks.

        Weights that are in no checkpoint (heads, adapters) are drawn from a keyed seed, so they
        don't depend on what was drawn in this process before. The return type is `Any` because the
        policy is both a :class:`Policy` and a `torch.nn.Module`.

        Raises:
            PolicyError: the factory returns something other than a policy.
        """
        import torch

        from rlcore.contracts.rng import generator
        from rlcore.learner.train_only import train_only

        settings = self._settings
        self._folder = model.model_path
        torch.manual_seed(int(generator(settings.seed, "weights").integers(2**31)))
        target = settings.policy_target
        policy = load_target(target)(model, env_spec=settings.env_spec)
        name = f"model {model.model_type}"
        require_component(policy, name, target, "a policy", ("spec", PolicySpec), PolicyError)
        if settings.actor.trainable:
            train_only(policy, settings.actor.trainable)
        if settings.actor.fsdp_config.gradient_checkpointing:
            policy.set_checkpointing(True)
        if not settings.acts:
            return policy
        from rlcore.learner.acting import with_acting_networks

        return with_acting_networks(
            policy,
            self._algorithm(),
            settings.env_spec,
            algorithm_name=settings.algorithm.name,
            seed=settings.seed,
            folder=model.model_path,
        )
