"""Check whether a backend meets the contract of :class:`rlcore.workers.backend.Backend`.

    class TestMyBackend(BackendConformance):
        name = "my_backend"

A check trains the toy policy for one update on the first rank; most of its time is the start of
workers.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
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
from rlcore_testing.conformance.base import Conformance, Finding, check, require

TOY = (
    *("env=toy", "model=toy", "cluster.component_placement={'env,rollout,actor': 0}"),
    *("runner.max_epochs=1", "runner.val_before_train=false", "env.train.total_num_envs=4"),
    *("env.eval.total_num_envs=4", "env.eval.trials_per_task=2", "actor.global_batch_size=16"),
    *("actor.micro_batch_size=16",),
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
    test_every_key_of_its_settings_has_a_help_text = None  # type: ignore[assignment]  # it has none

    def cluster(self) -> ClusterConfig:
        """Return the section `cluster` of a run on the backend."""
        return ClusterConfig(backend=self.component().name, **self.settings)

    def test_it_has_what_core_asks_for(self) -> None:
        backend = load_backend(self.cluster())
        missing = [name for name in _methods() if not callable(getattr(backend, name, None))]
        require(
            not missing,
            f"{type(backend).__name__} has no {', '.join(missing)}",
            hint="rlcore.workers.backend.Backend has the signatures",
        )

    def test_it_finds_machines_with_ranks(self) -> None:
        found = find_inventory(self.cluster(), only_look=True)
        require(
            isinstance(found, Inventory) and found.total > 0,
            f"the machines of {self.cluster()} are {found!r}, expected an Inventory with ranks",
            hint="its spec function gives Inventory.local() where it joins nothing",
        )

    def test_sessions_share_what_the_outermost_holds(self) -> None:
        backend, cluster = load_backend(self.cluster()), self.cluster()
        with backend.session(cluster):
            with backend.session(cluster):
                pass
            self._same_as_local()
        self._same_as_local()  # one of the run's own

    def _same_as_local(self) -> None:
        """Require that an evaluation after one update gives the same episodes as core's backend."""
        wanted = self.shared("local", lambda: self._episodes(REFERENCE))
        own = [f"cluster.{key}={value}" for key, value in self.settings.items()]
        given = self._episodes(self.component().name, *own)
        require(
            given == wanted,
            f"after an update the toy policy plays {given}, expected as with "
            f"cluster.backend={REFERENCE}: {wanted}",
            hint="call a method once on each rank, and hand on what conversations send as it is",
        )

    def _episodes(self, backend: str, *words: str) -> list[Any]:
        train = load_target(load_plugins().get("command", "train").spec.target)
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()):
            chosen = (f"algorithm={self.algorithm}", f"cluster.backend={backend}", *words)
            train([*TOY, *chosen, f"runner.logger.log_path={folder}"])
            return list(open_run(Path(folder, "run")).evaluations()["after"].episodes)


def _methods() -> Iterator[str]:
    return (name for name in vars(Backend) if not name.startswith("_"))


def check_backend(name: str, **settings: Any) -> list[Finding]:
    """Return the contract violations of backend `name` under `settings` of `cluster`."""
    return check(BackendConformance, name, settings)
