"""Define the component that a plugin lists, described by strings.

Part of :mod:`rlcore.contracts.specs`, in a separate module because every command needs it at
startup, and defining the other classes takes longer than loading all plugins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal[
    "env",
    "model",
    "algorithm",
    "placement",
    "backend",
    "dataset",
    "tracker",
    "protocol",
    "command",
    "wrapper",
]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class SimulatorVersions:
    """The tested versions of a library on which the results of an env depend.

    Attributes:
        distribution: name of the distribution for pip.
        tested: tested versions, a PEP 440 specifier such as ">=3.2.7,<=3.3.2".
        reason: known change of results with other versions; runs with other versions are refused.
            Empty: no change is known, and other versions only cause a warning.
    """

    distribution: str
    tested: str
    reason: str = ""

    @property
    def requirement(self) -> str:
        """Return the requirement specifier of the tested versions, for pip."""
        return f"{self.distribution}{self.tested}"


@dataclass(frozen=True)
class ComponentSpec:
    """One registered component, described by strings so that listing components imports nothing.

    Attributes:
        kind: kind of the component.
        name: name by which a user selects it (`env=NAME`, `rlcore NAME` and so on).
        target: `"module:attr"`, the callable that makes the component; its signature is in
            :mod:`rlcore.contracts.hookspecs`.
        summary: one line for lists and help.
        config: `"module:attr"`, the dataclass of its settings, a subclass of the matching class in
            :mod:`rlcore.config.schema`. Its module imports neither torch nor a simulator.
        spec: `"module:attr"`, a function from settings to :class:`EnvSpec`, :class:`PolicySpec` or
            :class:`AlgorithmNeeds`; for a backend, from the `cluster` settings to the available
            machines. Its module imports neither torch nor a simulator.
        layouts: `"module:attr"`, formats of other systems in which `rlcore export` can write a
            model: `{name: function(source, destination)}`, where source is the folder that
            `save_pretrained` wrote and destination an empty folder.
        packages: distributions that it imports but that its own distribution does not depend on,
            by their names for pip. The user must install them.
        requirements: for an env or a model: requirements that pip installs for its simulators or
            its network, in an environment separate from rlcore's (`rlcore venv create NAME`). A
            requirement that ends with ` --no-deps` is installed without its dependencies. A check
            before a run reports those that another interpreter (`env.train.python`) lacks.
        tested: for an env: libraries on which its results depend (engine, tasks), with their tested
            versions. They are checked before a run, in the interpreter that simulates; the
            installed versions are part of an evaluation's protocol.
        requires_python: for an env or a model: Python versions of the environment for
            `requirements`, e.g. ">=3.10,<3.12"; None: every version that rlcore supports.
        unsupported: names that a user may expect among the choices (as in `env=NAME`) but that do
            not exist, each with the reason: "NAME: reason".
        original: for a model: `"module:attr"`, a function that converts the folder of a saved
            policy, its argument, in place to the format of the model's original code; None if the
            format is the same.
    """

    kind: Kind
    name: str
    target: str
    summary: str = ""
    config: str | None = None
    spec: str | None = None
    layouts: str | None = None
    packages: tuple[str, ...] = ()
    original: str | None = None
    requirements: tuple[str, ...] = ()
    requires_python: str | None = None
    unsupported: tuple[str, ...] = ()
    tested: tuple[SimulatorVersions, ...] = ()

    @property
    def requirement_names(self) -> list[str]:
        """Return the names of the distributions in `requirements`."""
        return [re.split(r"[^\w.-]", text, maxsplit=1)[0] for text in self.requirements]


@dataclass(frozen=True)
class OtherInterpreter:
    """A Python interpreter outside rlcore's environment, in which a component of a run computes.

    Attributes:
        side: env that it simulates: "train", "eval" or the row of a protocol; "model": the policy.
        executable: path of the interpreter.
        packages: versions of all distributions in its environment, by name.
        of_note: versions that results may depend on, by name: Python ("python"), the simulator or
            the network's library, the plugin's code.
        key: dotted key that names it; empty: `env.SIDE.python`.
    """

    side: str
    executable: str
    packages: Mapping[str, str]
    of_note: Mapping[str, str]
    key: str = ""
