"""ManiSkill3 for rlcore.

    plugin -> settings, spec (light)      env: CPU, a simulator per row   batched: GPU, one scene
                                           simulator -> raw -> mani_skill

`tasks` and `robots` are tables; `backend` names the device, `assets` the files that a task needs.
"""
