"""The versions of SAPIEN under which results of envs were tested: the one place of them. Light."""

from __future__ import annotations

from rlcore.contracts.component import SimulatorVersions

SAPIEN = SimulatorVersions("sapien", "==3.0.3")
