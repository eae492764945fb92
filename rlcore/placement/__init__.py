"""Decide which process runs where: parse the map, lay out the plan. Starts nothing.

component_placement --parse--> Placement --make_plan(+ Inventory)--> Plan
"""

from rlcore.placement.grammar import COMPONENTS, Placement, Process, parse
from rlcore.placement.groups import NodeGroup
from rlcore.placement.inventory import Inventory, Node, joins
from rlcore.placement.machines import find_inventory, require_backend
from rlcore.placement.memory import Batch, Need, memory_per_process
from rlcore.placement.plan import Allocation, Plan, make_plan, parts, route
from rlcore.placement.routes import WeightRoute, in_words, plan_weight_routes

__all__ = [
    "COMPONENTS",
    "Allocation",
    "Batch",
    "Inventory",
    "Need",
    "Node",
    "NodeGroup",
    "Placement",
    "Plan",
    "Process",
    "WeightRoute",
    "find_inventory",
    "in_words",
    "joins",
    "make_plan",
    "memory_per_process",
    "parse",
    "parts",
    "plan_weight_routes",
    "require_backend",
    "route",
]
