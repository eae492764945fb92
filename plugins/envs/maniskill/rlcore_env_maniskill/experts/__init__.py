"""Scripted experts that act on privileged state, for demonstrations. Imports no simulator."""

from rlcore_env_maniskill.experts.arm import CONTROL_MODES
from rlcore_env_maniskill.experts.tasks import EXPERT_TASKS, Expert, expert_for

__all__ = ["CONTROL_MODES", "EXPERT_TASKS", "Expert", "expert_for"]
