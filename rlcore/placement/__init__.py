"""Which process runs where: parse the map, lay out the plan, print it. Starts nothing.

component_placement --parse--> Placement --make_plan(+ Inventory)--> Plan --render--> table
"""

from rlcore.placement.grammar import COMPONENTS, Placement, Process, parse
from rlcore.placement.inventory import Inventory, Node
from rlcore.placement.plan import Plan, Seat, make_plan, route
from rlcore.placement.show import memory_per_process, render

__all__ = [
    "COMPONENTS",
    "Inventory",
    "Node",
    "Placement",
    "Plan",
    "Process",
    "Seat",
    "make_plan",
    "memory_per_process",
    "parse",
    "render",
    "route",
]
