"""Train the policy: the actor worker.

consumes   trajectory/ROLLOUT_RANK/RANK   columns from all rollout workers
produces   weights/ROUTE/ROLLOUT_RANK     a version of its weights, or of its shard of them
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore.config.schema import ModelConfig, SFTConfig
from rlcore.contracts.errors import WorkerError
from rlcore.rollout.messages import Conversation
from rlcore.runs.folder import SUPERVISED_POLICY
from rlcore.workers.policy_worker import PolicyWorker, PolicyWorkerSettings

if TYPE_CHECKING:
    from torch import Tensor

    from rlcore.demonstrations.datasets import OnProgress
    from rlcore.learner.fit_demonstrations import DemonstrationTraining
    from rlcore.learner.lazy_init import LazyInit
    from rlcore.learner.update import Learner
    from rlcore.placement.routes import WeightRoute
    from rlcore.transport.layout import Subset


class ActorWorker(PolicyWorker):
    """Worker that trains the policy on demonstrations and on trajectories."""

    def __init__(self, settings: PolicyWorkerSettings) -> None:
        super().__init__(settings)
        self._learner: Learner | None = None
        self._supervised: DemonstrationTraining | None = None
        self._lazy: LazyInit | None = None
        self._version = 0
        self._published: int | None = None  # version of the weights that were last published
        self._unpublished: Subset = "all"

    @property
    def learner(self) -> Learner:
        """The learner, built on first use, so that an evaluation allocates no optimizer."""
        self._restore_to_device()
        if self._learner is None:
            from rlcore.learner.update import Learner

            if self._settings.actor.fsdp_config.gradient_checkpointing:
                from rlcore.learner.lazy_init import MIN_LAZY_BYTES
                from rlcore.utils.malloc import set_mmap_threshold

                # slower, but gradient checkpointing already trades time for memory
                set_mmap_threshold(MIN_LAZY_BYTES)
            self._learner = Learner(
                self.policy,
                self._algorithm(),
                self._settings.actor,
                self._settings.algorithm,
                seed=self._settings.seed,
                total_updates=self._settings.total_updates,
                device=self.device,
                env=self._settings.env_spec,
                replay_needs=self._settings.replay_needs,
                spans=self.spans,
            )
        return self._learner

    def rendezvous(self) -> str:
        """Return the rendezvous address of the actor ranks: `tcp://ADDRESS:PORT` on this host.

        The port is free now; another process could still take it before the ranks meet.
        """
        import socket

        with socket.socket() as probe:
            probe.bind(("", 0))
            port = probe.getsockname()[1]
        return f"tcp://{self._settings.host}:{port}"

    def join(self, url: str, rank: int, world_size: int, timeout: float) -> None:
        """Form a process group with the other actor ranks, and shard the weights if configured.

        Args:
            url: the rendezvous address, see :meth:`rendezvous`.
            rank, world_size: this worker among the actor ranks.
            timeout: seconds to wait for the other ranks, here and in every collective.
        """
        from rlcore.learner import collectives

        collectives.join_process_group(
            self.device, url=url, rank=rank, world_size=world_size, timeout=timeout
        )
        if self._is_sharded:
            self._place_policy()

    @property
    def _is_sharded(self) -> bool:
        """Whether actor ranks shard the parameters."""
        return self._settings.shards > 1

    def _to_device(self, policy: Any) -> Any:
        """Return the policy on its device.

        A policy that is to be sharded remains on the host until :meth:`join`.
        """
        if not self._is_sharded:
            return super()._to_device(policy)
        from rlcore.learner import collectives

        if collectives.is_distributed():
            from rlcore.learner.shard import shard_parameters
            from rlcore.transport.checksums import checksums
            from rlcore.utils.malloc import DEFAULT_THRESHOLD, set_mmap_threshold

            settings = self._settings
            lazy = self._lazy
            assert lazy is not None  # because make() ran before
            names = {parameter: name for name, parameter in policy.named_parameters()}

            # checksums are computed here, as no rank has whole parameters after sharding
            def fill(parameters: Iterable[Tensor]) -> None:
                for parameter in parameters:
                    lazy.fill([parameter])
                    self._full_checksums |= checksums([(names[parameter], parameter)])

            shard_parameters(
                policy,
                settings.actor.fsdp_config,
                self.device,
                among=settings.shards,
                fill=fill,
            )
            set_mmap_threshold(DEFAULT_THRESHOLD)
            self._lazy = None
        return policy

    def make(self, model: ModelConfig) -> Any:
        """Build the policy. If it will be sharded, sharding initialises its large weights."""
        if not self._is_sharded:
            return super().make(model)
        from rlcore.learner.lazy_init import MIN_LAZY_BYTES, LazyInit
        from rlcore.utils.malloc import set_mmap_threshold

        # freed weights return to the system at once, until sharding is done
        set_mmap_threshold(MIN_LAZY_BYTES)
        with LazyInit() as lazy:
            policy = super().make(model)
        lazy.fill(policy.buffers())  # buffers are not sharded
        self._lazy = lazy
        return policy

    # -- learning -----------------------------------------------------------------------------

    def update(
        self, update: int, lr_factors: Mapping[str, float] | None = None
    ) -> dict[str, float]:
        """Make one policy update from the trajectory, drop the trajectory and return the metrics.

        For the arguments see :meth:`rlcore.learner.update.Learner.update`. Its metrics get
        `time/update`, in seconds.

        Raises:
            WorkerError: no trajectory was gathered since the last update.
        """
        begin = time.perf_counter()
        trajectory = self._consume_trajectory("update")
        self.policy.set_progress(update)  # the same progress as in the rollout
        self._mark_changed("trained")
        metrics = self.learner.update(trajectory, update, lr_factors)
        return {**metrics, "time/update": time.perf_counter() - begin}

    def load_demonstrations(self, data: str, val_fraction: float, reward: float) -> None:
        """Add the successful demonstrations in `data` to the replay, in place of earlier ones.

        Demonstrations that supervised training holds out for validation are excluded. With them,
        the algorithm would have more data than the supervised training that it is compared with.

        Args:
            data: path of the demonstrations.
            val_fraction: fraction of them that is held out for validation.
            reward: reward of their last steps, that of success in the env.
        """
        from rlcore.demonstrations.datasets import format_of
        from rlcore.learner.fit_demonstrations import supervised_samples

        dataset = format_of(Path(data)).read(Path(data))
        train, _ = dataset.split(val_fraction, self._settings.seed)
        self.learner.load_demonstrations(supervised_samples(self.policy, train), reward)

    def warnings(self) -> list[str]:
        """Return the learner's warnings for the user about the updates so far."""
        if self._learner is None:
            return []
        return [warning for warning in self._learner.warnings.values() if warning]

    def begin_supervised(
        self,
        data: str,
        sft: SFTConfig,
        *,
        made: int = 0,
        before: int = 0,
        control_samples: int | None = None,
        own_successes: bool = False,
        saved: str | None = None,
    ) -> dict[str, Any]:
        """Begin supervised training on the demonstrations in `data`, or restore its saved state.

        Earlier supervised training that was not ended is dropped.

        Args:
            data: path of the demonstrations.
            sft: settings of supervised training.
            made: number of steps of this run that led to the current weights, for training in
                parts with separate optimizers.
            before: number of steps of earlier runs that led to the weights that this run began
                from.
            control_samples: number of samples to train on (the control of a comparison), after
                `sft.max_steps` steps that led to the current weights, and with the current
                normaliser; None: train for `sft.max_steps` steps.
            own_successes: also train on the successful episodes in the replay.
            saved: folder that :meth:`save_supervised` wrote; None: begin at the first step.

        Returns:
            The history so far; without steps if the training begins.
        """
        from rlcore.learner.acting import without_acting_networks
        from rlcore.learner.fit_demonstrations import DemonstrationTraining

        self.end_supervised()
        # a saved policy has its adapters merged, so adapters are restored into the current policy
        adapters = self._settings.actor.model.is_lora
        if saved is not None and not adapters:
            self.load(str(Path(saved) / SUPERVISED_POLICY))
        self._mark_changed("all")
        is_control = control_samples is not None
        has_normalizer = bool(made) or is_control or (saved is not None and not adapters)
        self._supervised = DemonstrationTraining(
            without_acting_networks(self.policy),
            Path(data),
            sft,
            seed=self._settings.seed,
            device=self.device,
            fit_normalizer=not has_normalizer,
            own_successes=self.learner.successes() if own_successes else None,
            made=sft.max_steps if is_control else before + made,
            samples=control_samples,
            adapters=adapters,
            saved=None if saved is None else Path(saved),
        )
        return self._supervised.report()

    def supervised(
        self, until: int | None = None, *, on_progress: OnProgress | None = None
    ) -> dict[str, Any]:
        """Continue the supervised training that was begun, and return its history, with the losses
        since the last call alone.

        Args:
            until: number of steps at which this call ends; None: to the end of the training.
            on_progress: called after each step, on rank 0 alone.
        """
        from rlcore.learner import collectives

        if self._version == self._published:
            self._mark_changed("all")
        return self._begun_training().train(until, None if collectives.rank() else on_progress)

    def save_supervised(self, path: str) -> None:
        """Save the state of supervised training, from which :meth:`begin_supervised` can continue.

        All ranks must call this: each writes its shard of the optimizer's state, unless another
        rank writes the same shard.

        Args:
            path: an empty folder, into which the folder of the policy, the optimizer's state and
                the history are written.
        """
        from rlcore.learner import collectives
        from rlcore.runs.checkpoint import writing
        from rlcore.runs.learner_state import write_learner

        policy = Path(path) / SUPERVISED_POLICY
        trainer = self._begun_training().trainer
        with writing(Path(path)):
            if collectives.rank() == 0:
                policy.mkdir()
            self.save(str(policy))
            state = trainer.state_dict()
            if trainer.share is not None:
                part, parts = trainer.share
                write_learner(Path(path), state, part=part, parts=parts)

    def end_supervised(self) -> None:
        """Free what supervised training needs besides the policy: samples, optimizer, decoders."""
        if self._supervised is not None:
            self._supervised.close()
        self._supervised = None

    def _begun_training(self) -> DemonstrationTraining:
        """Return the supervised training that was begun.

        Raises:
            WorkerError: none was begun since the policy was loaded.
        """
        if self._supervised is None:
            raise WorkerError("supervised training was not begun")
        self._restore_to_device()
        return self._supervised

    def save(self, path: str, *, trial: bool = False) -> None:
        """Save the policy, see :meth:`PolicyWorker.save`.

        All ranks must call this, as sharded parameters are gathered; rank 0 alone writes.
        """
        from rlcore.learner import collectives

        if self._is_sharded and collectives.is_distributed():
            from rlcore.learner.shard import gathered_on_rank0

            with gathered_on_rank0(self.policy) as is_rank0:
                if is_rank0:
                    super().save(path, trial=trial)
        elif collectives.rank() == 0:
            super().save(path, trial=trial)

    def save_learner(self, path: str, known: Sequence[str] = ()) -> None:
        """Save optimizer, scheduler, counters, and the algorithm's networks and replay.

        All ranks must call this: each writes its own part of the replay, and its shard of the state
        unless another rank writes the same shard.

        Args:
            path: folder of a checkpoint.
            known: names of replay files that an earlier checkpoint holds; these are not written
                again.
        """
        from rlcore.runs.checkpoint import writing
        from rlcore.runs.learner_state import write_learner

        shard = self.learner.share
        with writing(Path(path)):
            replay = self.learner.save_replay(Path(path), known)
            if shard is None:
                return
            part, parts = shard
            state = self.learner.state_dict()
            state["state"] |= replay
            write_learner(Path(path), state, part=part, parts=parts)

    def load_learner(self, path: str) -> None:
        """Restore the learner that :meth:`save_learner` saved; all weights count as changed."""
        self._mark_changed("all")
        self.try_learner(path)

    def try_learner(self, path: str) -> None:
        """Read back what :meth:`save_learner` has just written, to check that it can be read.

        The learner's state does not change, so its weights need not be published.
        """
        from rlcore.runs.learner_state import read_learner

        state = read_learner(Path(path))
        self.learner.load_state_dict(state)
        self.learner.load_replay(Path(path), state["state"])

    def load_replay(self, path: str) -> None:
        """Restore only the replay from what :meth:`save_learner` saved."""
        from rlcore.runs.learner_state import read_learner

        self.learner.load_replay(Path(path), read_learner(Path(path))["state"])

    def load(self, path: str) -> None:
        """Replace the policy by a saved one; the next learner starts with a new optimizer."""
        # both refer to the old policy
        self._learner = None
        self.end_supervised()
        super().load(path)
        self._mark_changed("all")

    def stop(self) -> None:
        """End the processes that read frames, which must not outlive the worker."""
        self.end_supervised()
        super().stop()

    # -- exchange with rollout workers --------------------------------------------------------

    def version(self) -> int:
        """Return the version of the current weights: the number of times they were changed."""
        return self._version

    def publish(self, routes: Sequence[WeightRoute], timeout: float, bucket: int) -> Conversation:
        """Send the weights that may have changed since the last call, or this rank's shard of them.

        All ranks must call this.

        Args:
            routes: routes of which this rank is the sender.
            timeout: seconds to wait until a bucket is received.
            bucket: size of a bucket in bytes.
        """
        from rlcore.transport.weights import send_weights

        connections = self._weight_connections(timeout, bucket)
        if any(route.transport == "broadcast" for route in routes):
            connections.host = self._settings.host
        yield from send_weights(
            self.policy,
            version=self._version,
            subset=self._unpublished,
            routes=routes,
            connections=connections,
        )
        self._unpublished = "trained"
        self._published = self._version

    def receive_trajectory(self, keys: Sequence[str], timeout: float) -> Conversation:
        """Receive this rank's columns of the trajectory.

        Args:
            keys: keys of the queues, one from each rollout worker.
            timeout: seconds to wait for a message.
        """
        from rlcore.transport.trajectory import receive_trajectory

        self._trajectory = yield from receive_trajectory(keys, timeout)
        self._gathered = True

    def _tensors_to_offload(self) -> Iterator[Tensor]:
        yield from super()._tensors_to_offload()
        yield from self._learner_tensors()

    def _learner_tensors(self) -> Iterator[Tensor]:
        """Yield the tensors that only learning needs: those of the learner."""
        if self._learner is not None:
            yield from self._learner.tensors()

    def _mark_changed(self, subset: Subset) -> None:
        """Count a change of the weights, and record which subset is to be published."""
        self._version += 1
        if subset == "all":
            self._unpublished = "all"
