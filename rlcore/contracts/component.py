"""Define what a plugin lists: a component, made of strings.

The part of :mod:`rlcore.contracts.specs` that each start of a command needs, apart because
the other classes take longer to make than all plugins to load.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal[
    "env", "model", "algorithm", "placement", "backend", "dataset", "tracker", "protocol",
    "command", "function", "wrapper",
]  # fmt: skip
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class SimulatorVersions:
    """The versions of a library that decides an env's results, as far as they were tested.

    Attributes:
        distribution: its name, as pip knows it.
        tested: the versions, as a specifier of PEP 440: ">=3.2.7,<=3.3.2".
        reason: why runs with other versions are refused: what is known to change. Empty: nothing is
            known, and runs with other versions are warned of.
    """

    distribution: str
    tested: str
    reason: str = ""

    @property
    def requirement(self) -> str:
        """What pip installs: the tested versions."""
        return f"{self.distribution}{self.tested}"


@dataclass(frozen=True)
class ComponentSpec:
    """One registered component. Made of strings, so that listing loads nothing.

    Attributes:
        kind: what it is.
        name: what a user writes (`env=NAME`, `rlcore NAME` and so on).
        target: `"module:attr"` (see :mod:`rlcore.contracts.hookspecs` for its signature).
        summary: one line for lists and help.
        config: `"module:attr"`, the dataclass of its settings (a subclass of the matching
            one in :mod:`rlcore.config.schema`); light: imports neither torch nor a simulator.
        spec: `"module:attr"`, a light function from settings to :class:`EnvSpec` /
            :class:`PolicySpec` / :class:`AlgorithmNeeds`; of a backend, from `cluster` to the
            machines there are.
        imports: `"module:attr"`, a tuple of rules: how the
            configuration files of other systems name its settings; light.
        layouts: `"module:attr"`, a mapping of layouts of other systems in which `rlcore export` can
            write a model: name -> function of the folder that `save_pretrained` wrote and an empty
            one to write.
        packages: distributions that it imports and that its own does not bring, as pip knows them.
            Whoever chooses it must have them.
        requirements: of an env: what pip installs for its simulators into an environment of their
            own (`rlcore venv create NAME`), numpy among it; one that ends with ` --no-deps` is
            installed without what it asks for. What another interpreter (`env.train.python`) lacks
            of these is found before a run.
        tested: of an env: the libraries that decide what its episodes come to (engine, tasks), each
            with its tested versions. They are checked before a run, in whichever interpreter
            simulates, and the versions that are there are part of an evaluation's protocol.
        requires_python: like `requirements`, the Python of that environment, e.g. ">=3.10,<3.12";
            None: any that rlcore runs on.
        unsupported: names that a user may look for beside its own (an option, as in `env=NAME`),
            each with the reason why there is none: "NAME: reason".
        original: of a model: `"module:attr"`, a function that changes the folder of a saved policy,
            its argument, into the form that the model's original code reads, where that is another
            one.
    """

    kind: Kind
    name: str
    target: str
    summary: str = ""
    config: str | None = None
    spec: str | None = None
    imports: str | None = None
    layouts: str | None = None
    packages: tuple[str, ...] = ()
    original: str | None = None
    requirements: tuple[str, ...] = ()
    requires_python: str | None = None
    unsupported: tuple[str, ...] = ()
    tested: tuple[SimulatorVersions, ...] = ()

    @property
    def requirement_names(self) -> list[str]:
        """Names of the distributions that `requirements` asks for."""
        return [re.split(r"[^\w.-]", text, maxsplit=1)[0] for text in self.requirements]


@dataclass(frozen=True)
class OtherInterpreter:
    """A Python of another environment than rlcore's, in which simulators of a run run.

    Attributes:
        side: whose env it is: "train", "eval" or the row of a protocol.
        executable: its path.
        packages: versions of all that is installed in its environment, by name.
        of_note: versions that results may depend on: of Python ("python"), the simulator, the
            plugin's code.
    """

    side: str
    executable: str
    packages: Mapping[str, str]
    of_note: Mapping[str, str]
