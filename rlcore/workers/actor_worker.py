"""Train the policy: the actor worker. Knows no env.

consumes   trajectory/ROLLOUT_RANK/RANK   columns of all rollout workers
produces   weights/ROUTE/ROLLOUT_RANK     its weights, or its shard, by version, after each change
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore.config.schema import ModelConfig, SFTConfig
from rlcore.rollout.messages import Conversation
from rlcore.workers.policy_worker import PolicyWorker, PolicyWorkerSettings

if TYPE_CHECKING:
    from torch import Tensor

    from rlcore.demonstrations.datasets import OnProgress
    from rlcore.learner.lazy_init import LazyInit
    from rlcore.learner.update import Learner
    from rlcore.placement.routes import WeightRoute
    from rlcore.transport.layout import Subset


class ActorWorker(PolicyWorker):
    """Learns from demonstrations and from episodes."""

    def __init__(self, settings: PolicyWorkerSettings) -> None:
        super().__init__(settings)
        self._learner: Learner | None = None
        self._going_on: Callable[..., dict[str, Any]] | None = None  # more supervised training
        self._lazy: LazyInit | None = None
        self._version = 0
        self._unpublished: Subset = "all"

    @property
    def learner(self) -> Learner:
        """Built when first needed, so that an evaluation holds no optimizer."""
        self._arrive()
        if self._learner is None:
            from rlcore.learner.update import Learner

            if self._settings.actor.fsdp_config.gradient_checkpointing:
                from rlcore.learner.lazy_init import LEAST
                from rlcore.learner.malloc import set_mmap_threshold

                set_mmap_threshold(
                    LEAST
                )  # it is slower, and who recomputes would rather have the memory
            self._learner = Learner(
                self.policy,
                self._algorithm(),
                self._settings.actor,
                self._settings.algorithm,
                seed=self._settings.seed,
                device=self.device,
                env=self._settings.env_spec,
                keeps=self._settings.keeps,
            )
        return self._learner

    def rendezvous(self) -> str:
        """Where the actor ranks meet: `tcp://ADDRESS:PORT`, free on rank 0's host now."""
        import socket

        with socket.socket() as probe:
            probe.bind(("", 0))
            port = probe.getsockname()[1]
        return f"tcp://{self._settings.host}:{port}"

    def join(self, url: str, rank: int, world_size: int, timeout: float) -> None:
        """Form a process group with the other actor ranks, and divide the weights where the
        settings say so; a rank waits `timeout` seconds for the others, then and in every update."""
        from rlcore.learner import collectives

        collectives.join_process_group(
            self.device, url=url, rank=rank, world_size=world_size, timeout=timeout
        )
        if self._divides:
            self._place()

    @property
    def _divides(self) -> bool:
        return self._settings.shards > 1

    def _placed(self, policy: Any) -> Any:
        """On its device; a policy that ranks divide stays on the host until they have met."""
        if not self._divides:
            return super()._placed(policy)
        from rlcore.learner import collectives

        if collectives.is_distributed():
            from rlcore.learner.malloc import USUAL, set_mmap_threshold
            from rlcore.learner.shard import shard_parameters
            from rlcore.transport.checksums import checksums

            settings, lazy = self._settings, self._lazy
            assert lazy is not None  # as it was made before
            names = {one: name for name, one in policy.named_parameters()}

            def fill(parameters: Iterable[Tensor]) -> None:
                for one in parameters:
                    lazy.fill([one])
                    self._full_checksums |= checksums([(names[one], one)])

            shard_parameters(
                policy,
                settings.actor.fsdp_config,
                self.device,
                among=settings.shards,
                fill=fill,
            )
            set_mmap_threshold(USUAL)
            self._lazy = None
        return policy

    def make(self, model: ModelConfig) -> Any:
        """Of a policy that ranks divide, large weights get their numbers when they are divided."""
        if not self._divides:
            return super().make(model)
        from rlcore.learner.lazy_init import LEAST, LazyInit
        from rlcore.learner.malloc import set_mmap_threshold

        set_mmap_threshold(
            LEAST
        )  # what is drawn and given up is to be gone, until the parts are there
        with LazyInit() as lazy:
            policy = super().make(model)
        lazy.fill(policy.buffers())  # each rank has all of these
        self._lazy = lazy
        return policy

    # -- learning -----------------------------------------------------------------------------

    def update(
        self, update: int, lr_factors: Mapping[str, float] | None = None
    ) -> dict[str, float]:
        """One policy update from the trajectory, which is given up; returns metrics. For the
        arguments see :meth:`rlcore.learner.update.Learner.update`."""
        trajectory = self._use_up("update")
        self.policy.set_progress(update)  # as it was when it acted
        self._changed("trained")
        return self.learner.update(trajectory, update, lr_factors)

    def teach(self, data: str, val_fraction: float) -> None:
        """Have the successful demonstrations in `data` among what the algorithm learns from, but
        for those that supervised training held back: else it would gain by having more of them."""
        from rlcore.demonstrations.datasets import format_of
        from rlcore.plugins.registry import load_component

        there = format_of(Path(data)).read(Path(data))
        shown, _ = there.split(val_fraction, self._settings.seed)
        samples = load_component("function", "supervised_samples")(self.policy, list(shown))
        self.learner.teach(samples)

    def remarks(self) -> list[str]:
        """What a user should know of the updates so far."""
        return [] if self._learner is None else list(filter(None, self._learner.remarks.values()))

    def supervised(
        self,
        data: str,
        sft: SFTConfig,
        *,
        continue_samples: int | None = None,
        until: float = 1.0,
        own_successes: bool = False,
        on_progress: OnProgress | None = None,
    ) -> dict[str, Any]:
        """Train on the demonstrations in `data`; returns the history.

        Args:
            continue_samples: go on from the present weights, on so many samples (the control),
                instead of `sft.max_steps` steps from the start.
            until: share of these after which this call ends; the next one goes on from there.
            own_successes: learn from the successful episodes in the replay too.
            on_progress: called after each step; of several ranks, the first one's.
        """
        from rlcore.learner import collectives
        from rlcore.learner.acting import without_acting_networks
        from rlcore.plugins.registry import load_component

        self._changed("all")
        given: dict[str, Any] = {"seed": self._settings.seed, "device": self.device}
        told = None if collectives.rank() else on_progress
        if continue_samples is None:
            fit = load_component("function", "fit_demonstrations")
            history = fit(
                without_acting_networks(self.policy), Path(data), sft, **given, on_progress=told
            )
        else:
            if self._going_on is None:
                more = self.learner.successes() if own_successes else None
                given |= {"samples": continue_samples, "more": more}
                begin = load_component("function", "more_demonstrations")
                self._going_on = begin(
                    without_acting_networks(self.policy), Path(data), sft, **given
                )
            history = self._going_on(until, told)
        return dict(history)

    def save(self, path: str, *, trial: bool = False) -> None:
        """See :meth:`PolicyWorker.save`: asked of all ranks, of which the first one writes."""
        from rlcore.learner import collectives

        if self._divides and collectives.is_distributed():
            from rlcore.learner.shard import gathered_on_rank0

            with gathered_on_rank0(self.policy) as first:
                if first:
                    super().save(path, trial=trial)
        elif collectives.rank() == 0:
            super().save(path, trial=trial)

    def save_learner(self, path: str, known: Sequence[str] = ()) -> None:
        """Optimizer, scheduler and counters, networks and replay of the algorithm, into a
        checkpoint's folder; asked of all ranks, of which each writes what it has in its keeping.

        Args:
            known: files of the replay that an earlier checkpoint has.
        """
        from rlcore.run_folder.checkpoint import writing
        from rlcore.run_folder.learner_state import write_learner

        share = self.learner.share
        with writing(Path(path)):
            replay = self.learner.save_replay(Path(path), known)
            if share is None:
                return
            saved = self.learner.state_dict()
            saved["state"] |= replay
            write_learner(Path(path), saved, part=share[0], parts=share[1])

    def load_learner(self, path: str) -> None:
        """Go on from what :meth:`save_learner` wrote."""
        self._changed("all")
        self.try_learner(path)

    def learner_bytes(self) -> int:
        """Return the bytes of what :meth:`save_learner` writes here, as long as no update was
        made: a copy of the weights is most of it."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.learner.tensors())

    def try_learner(self, path: str) -> None:
        """Read back what :meth:`save_learner` has just written of the learner that is held; so
        nothing changes, and nothing is to be published."""
        from rlcore.run_folder.learner_state import read_learner

        saved = read_learner(Path(path))
        self.learner.load_state_dict(saved)
        self.learner.load_replay(Path(path), saved["state"])

    def recall(self, path: str) -> None:
        """The replay alone of what :meth:`save_learner` wrote."""
        from rlcore.run_folder.learner_state import read_learner

        self.learner.load_replay(Path(path), read_learner(Path(path))["state"])

    def load(self, path: str) -> None:
        """A saved policy; the optimizer starts afresh."""
        self._learner = self._going_on = None  # they hold the policy that is given up
        super().load(path)
        self._changed("all")

    # -- what the rollout workers get and give ------------------------------------------------

    def version(self) -> int:
        """Of the present weights: how often they were changed."""
        return self._version

    def publish(self, routes: Sequence[WeightRoute], timeout: float, bucket: int) -> Conversation:
        """Send the weights that were changed since the last time, or the part that is held here.
        Asked of all ranks.

        Args:
            routes: those that begin here.
            timeout: seconds to wait for a bucket to be taken.
            bucket: bytes of one.
        """
        from rlcore.transport.weights import send_weights

        connections = self._connected(timeout, bucket)
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

    def take_over(self, keys: Sequence[str], timeout: float) -> Conversation:
        """Receive this rank's columns through the queues `keys`, one for each rollout worker."""
        from rlcore.transport.trajectory import receive_trajectory

        self._trajectory = yield from receive_trajectory(keys, timeout)
        self._gathered = True

    def _leaving(self) -> Iterator[Tensor]:
        yield from super()._leaving()
        yield from self._learned()

    def _learned(self) -> Iterator[Tensor]:
        """What only learning needs."""
        if self._learner is not None:
            yield from self._learner.tensors()

    def _changed(self, subset: Subset) -> None:
        self._version += 1
        if subset == "all":
            self._unpublished = "all"
