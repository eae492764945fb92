"""Ray as a backend passes the checks that authors of backends run on theirs."""

from __future__ import annotations

import pytest
from rlcore_testing import BackendConformance


@pytest.mark.long
class TestRayBackend(BackendConformance):
    name = "ray"
