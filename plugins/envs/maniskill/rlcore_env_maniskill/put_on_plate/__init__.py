"""Put-on-plate: the 25-object task of RL4VLA (arXiv 2505.19789) and its 13 held-out variants.

Importing this package registers them with ManiSkill, which loads the simulator.
"""

from rlcore_env_maniskill.put_on_plate.registry import ENV_IDS

__all__ = ["ENV_IDS"]
