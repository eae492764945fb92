"""Register the variants with ManiSkill: one class, one id per row of the variant table."""

from __future__ import annotations

from mani_skill.utils.registration import REGISTERED_ENVS, register_env

from rlcore_env_maniskill.put_on_plate.task import PutOnPlateEnv
from rlcore_env_maniskill.put_on_plate.variants import VARIANTS

MAX_EPISODE_STEPS = 80

ENV_IDS: dict[str, str] = {variant.env_id: name for name, variant in VARIANTS.items()}
"""Name in the variant table by ManiSkill id."""

for _env_id, _name in ENV_IDS.items():
    if _env_id not in REGISTERED_ENVS:
        register_env(_env_id, max_episode_steps=MAX_EPISODE_STEPS, variant=_name)(PutOnPlateEnv)
