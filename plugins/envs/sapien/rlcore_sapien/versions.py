"""Versions of SAPIEN with which the results of envs were tested. They are defined only here."""

from __future__ import annotations

from rlcore.contracts.component import SimulatorVersions

SAPIEN = SimulatorVersions("sapien", "==3.0.3")
