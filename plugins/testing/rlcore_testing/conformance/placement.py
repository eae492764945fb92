"""Check whether a placement computes maps that a run can be planned with, for various machines.

class TestMyPlacement(PlacementConformance):
    name = "my_placement"
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, ClassVar

from rlcore.config.schema import ClusterConfig
from rlcore.contracts.errors import UserError
from rlcore.contracts.specs import Kind
from rlcore.placement import Inventory, Node, make_plan
from rlcore.plugins.import_target import load_target
from rlcore_testing.conformance.base import HEAVY, Conformance, Deviation, Finding, check, require

GIB = 2**30
MACHINES = {
    "one core": Inventory.uniform(1, Node(cpus=1, memory=8 * GIB)),
    "8 cores": Inventory.uniform(1, Node(cpus=8, memory=32 * GIB)),
    "one GPU": Inventory.uniform(1, Node(16, 1, 128 * GIB, 80 * GIB)),
    "two nodes of 8 GPUs": Inventory.uniform(2, Node(96, 8, 1024 * GIB, 80 * GIB)),
}


class PlacementConformance(Conformance):
    """Checks of a placement. Set `name`.

    Attributes:
        machines: inventories for which it must give a plan, by a name for messages.
    """

    kind: ClassVar[Kind] = "placement"
    machines: ClassVar[dict[str, Inventory]] = MACHINES
    test_every_key_of_its_settings_has_a_help_text = None  # type: ignore[assignment]  # it has none

    def cluster(self, inventory: Inventory, placement: Any = None) -> ClusterConfig:
        """Return the section `cluster` of a run on these machines.

        Args:
            placement: a map; None: the name of the placement.
        """
        nodes, named = len(inventory.nodes), placement or self.component().name
        return ClusterConfig(num_nodes=nodes, component_placement=named, **self.settings)

    def computed(self, inventory: Inventory) -> Any:
        """Return the placement's map for these machines."""
        return load_target(self.component().target)(inventory, self.cluster(inventory))

    def test_a_run_can_be_planned_with_it(self) -> None:
        for name, inventory in self.machines.items():
            computed = self.computed(inventory)
            try:
                plan = make_plan(self.cluster(inventory, computed), inventory)
            except UserError as error:
                raise Deviation(
                    f"on {name} it gives {computed!r}: {error.message}",
                    hint=error.hint or "docs/cluster.md has what a placement may say",
                ) from None
            missing = [
                role for role in ("env", "rollout", "actor") if role not in plan.placement.processes
            ]
            require(not missing, f"on {name} it gives no place to {', '.join(missing)}",
                    hint="name env, rollout and actor")  # fmt: skip

    def test_the_same_machines_give_the_same_map(self) -> None:
        """A resumed run computes the plan again."""
        for name, inventory in self.machines.items():
            first, second = self.computed(inventory), self.computed(copy.deepcopy(inventory))
            require(first == second, f"on {name} it gives {first!r}, then {second!r}",
                    hint="compute it from the inventory alone")  # fmt: skip

    def test_it_loads_nothing_heavy(self) -> None:
        """Every dry run computes it."""
        module = self.component().target.partition(":")[0]
        loaded: Sequence[str] = self.loaded_by(f"import {module}", HEAVY)
        require(not loaded, f"importing {module} loads {', '.join(loaded)}",
                hint="every dry run computes it: import nothing heavy")  # fmt: skip


def check_placement(name: str, **settings: Any) -> list[Finding]:
    """Return the contract violations of placement `name` under `settings` of `cluster`."""
    return check(PlacementConformance, name, settings)
