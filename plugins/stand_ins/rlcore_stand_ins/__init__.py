"""Scenes and assets of primitive shapes in place of those of LIBERO, ManiSkill and RoboTwin.

They need no downloads, so runs and tests work where the real assets are missing. Each env finds its
stand-in by an entry point (:mod:`rlcore_simulation.stand_ins`).
"""
