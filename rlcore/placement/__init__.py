"""Parse the placement of a run and plan which process runs where. Starts nothing.

component_placement --parse--> Placement --make_plan(+ Inventory)--> Plan
"""

from rlcore.placement.inventory import Inventory, Node, joins
from rlcore.placement.machines import find_inventory
from rlcore.placement.plan import Allocation, Plan, make_plan

__all__ = ["Allocation", "Inventory", "Node", "Plan", "find_inventory", "joins", "make_plan"]
