"""Define the version of gymnasium with which envs were tested. Light to import."""

from __future__ import annotations

from rlcore.contracts.component import SimulatorVersions

GYMNASIUM = SimulatorVersions("gymnasium", "==1.4.0")
