"""Check whether a placement computes maps that a run can be planned with, for various machines.

class TestMyPlacement(PlacementConformance):
    name = "my_placement"
"""

from __future__ import annotations

from typing import Any, ClassVar

from rlcore.config.schema import ClusterConfig
from rlcore.contracts.errors import UserError
from rlcore.contracts.specs import Kind
from rlcore.placement import Inventory, Node, make_plan
from rlcore.plugins.import_target import load_target
from rlcore_testing.conformance.base import Conformance, require

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
    light = ("target",)
    machines: ClassVar[dict[str, Inventory]] = MACHINES

    def cluster(self, inventory: Inventory, placement: Any = None) -> ClusterConfig:
        """Return the section `cluster` of a run on these machines.

        Args:
            placement: a map; None: the name of the placement.
        """
        nodes = len(inventory.nodes)
        named = placement or self.component().name
        return ClusterConfig(num_nodes=nodes, component_placement=named, **self.settings)

    def test_a_run_can_be_planned_with_it(self) -> None:
        """A resumed run computes the map again."""
        compute = load_target(self.component().target)
        for name, inventory in self.machines.items():
            computed, again = (compute(inventory, self.cluster(inventory)) for _ in range(2))
            hint = "compute it from the inventory alone"
            require(f"the map of {name}, computed again,", again, computed, hint)
            try:
                plan = make_plan(self.cluster(inventory, computed), inventory)
            except UserError as error:
                raise AssertionError(
                    f"on {name} it gives {computed!r}: {error.message}\n  hint: "
                    f"{error.hint or 'docs/cluster.md has what a placement may say'}"
                ) from None
            missing = sorted({"env", "rollout", "actor"} - {*plan.placement.processes})
            hint = "name env, rollout and actor"
            require(f"the list of components without a place on {name}", missing, [], hint)
