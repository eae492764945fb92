"""Check whether an env meets the contract of :class:`rlcore.contracts.protocols.Env`.

    class TestMyEnv(EnvConformance):
        name = "my_env"

This module loads no tensor library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rlcore_testing.conformance.env_chunks import ChunkChecks
from rlcore_testing.conformance.env_demonstrations import DemonstrationChecks
from rlcore_testing.conformance.env_ends import EndChecks
from rlcore_testing.conformance.env_facts import FactChecks
from rlcore_testing.conformance.env_rows import RowChecks
from rlcore_testing.conformance.env_starts import StartChecks


class EnvConformance(
    FactChecks, StartChecks, ChunkChecks, EndChecks, RowChecks, DemonstrationChecks
):
    """Checks of an env.

    Set `name`, and `settings` if the defaults are not suitable. Attributes and methods of
    :class:`EnvSubject` may be overridden.
    """

    thorough: ClassVar[Mapping[str, Any]] = {"memory_episodes": 200}
