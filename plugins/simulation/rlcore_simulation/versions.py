"""The versions of gymnasium under which envs were tested: the one place of them. Light."""

from __future__ import annotations

from rlcore.contracts.component import SimulatorVersions

GYMNASIUM = SimulatorVersions("gymnasium", "==1.4.0")
