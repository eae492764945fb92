"""Ray as a backend passes the checks that authors of backends run on theirs."""

from __future__ import annotations

from rlcore_testing import BackendConformance


class TestRayBackend(BackendConformance):
    name = "ray"
