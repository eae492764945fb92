"""Check whether a backend meets the contract of :class:`rlcore.workers.backend.Backend`.

    class TestMyBackend(BackendConformance):
        name = "my_backend"

A check trains the toy policy for one update on the first rank; most of its time is the start of
workers.
"""

from __future__ import annotations

import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar

from rlcore.api import open_run
from rlcore.config.schema import ClusterConfig
from rlcore.contracts.specs import Kind
from rlcore.placement import Inventory, find_inventory
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_plugins
from rlcore.workers.backend import Backend, load_backend
from rlcore_testing.conformance.base import Conformance, require

TOY = (
    "env=toy",
    "model=toy",
    "cluster.component_placement={'env,rollout,actor': 0}",
    "runner.max_epochs=1",
    "runner.val_before_train=false",
    "env.train.total_num_envs=4",
    "env.eval.total_num_envs=4",
    "env.eval.trials_per_task=2",
    "actor.global_batch_size=16",
    "actor.micro_batch_size=16",
    "runner.logger.experiment_name=run",
)
REFERENCE = "local"  # core's backend, whose results are the expected ones


class BackendConformance(Conformance):
    """Checks of a backend.

    Set `name`, and `settings` (keys of `cluster`) if the defaults are not suitable.

    Attributes:
        algorithm: name of the algorithm that trains the toy policy; it must be installed.
    """

    kind: ClassVar[Kind] = "backend"
    algorithm: ClassVar[str] = "ppo"

    def cluster(self) -> ClusterConfig:
        """Return the section `cluster` of a run on the backend."""
        return ClusterConfig(backend=self.component().name, **self.settings)

    def test_it_has_what_core_asks_for(self) -> None:
        backend = load_backend(self.cluster())
        methods = {name for name in vars(Backend) if not name.startswith("_")}
        missing = sorted(methods - {*dir(backend)})
        hint = "rlcore.workers.backend.Backend has the signatures"
        require(f"the list of methods that {type(backend).__name__} lacks", missing, [], hint)

    def test_it_finds_machines_with_ranks(self) -> None:
        inventory = find_inventory(self.cluster(), only_look=True)
        assert isinstance(inventory, Inventory) and inventory.total > 0, (
            f"the machines of {self.cluster()} are {inventory!r}, expected an Inventory with ranks"
            "\n  hint: its spec function gives Inventory.local() where it joins nothing"
        )

    def test_sessions_share_what_the_outermost_holds(self) -> None:
        """An evaluation after one update gives the same episodes as core's backend."""
        cluster = self.cluster()
        backend = load_backend(cluster)
        own = {"backend": cluster.backend, **self.settings}
        words = [f"cluster.{key}={value}" for key, value in own.items()]
        expected = self._episodes(f"cluster.backend={REFERENCE}")
        with backend.session(cluster):
            with backend.session(cluster):
                pass
            inside = self._episodes(*words)
        for episodes in (inside, self._episodes(*words)):
            require(
                "the evaluation of the toy policy after an update",
                episodes,
                expected,
                "call a method once on each rank, and hand on what conversations send as it is",
            )

    def _episodes(self, *words: str) -> list[Any]:
        """Train the toy policy; return the episodes of the evaluation after it."""
        train = load_target(load_plugins().get("command", "train").spec.target)
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()):
            algorithm = f"algorithm={self.algorithm}"
            train([*TOY, algorithm, *words, f"runner.logger.log_path={folder}"])
            return list(open_run(Path(folder, "run")).evaluations()["after"].episodes)
