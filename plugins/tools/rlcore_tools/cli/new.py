"""Run `rlcore new KIND NAME [--from gymnasium:ID] [--replay] [--into FOLDER] [--again]`: write a
package of your own with one env, model, algorithm, hook, tracker, command or placement in it. The
package works as written; change it from there (docs/plugins.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rlcore.cli.parser import Parser
from rlcore.contracts.errors import ConfigError
from rlcore.plugins.extras import install_command, pip_install
from rlcore_tools.new.make import KINDS, New, write

GYMNASIUM = "gymnasium:"


def main(arguments: Sequence[str]) -> int:
    """Write the package, and print its files and the next command."""
    parser = Parser(prog="rlcore new", description=__doc__)
    parser.add_argument("kind", metavar="KIND", choices=KINDS, help=", ".join(KINDS))
    parser.add_argument("name", metavar="NAME", help="name of the component, such as my-reach")
    parser.add_argument(
        "--from",
        dest="source",
        metavar="gymnasium:ID",
        help="for an env: the id of a gymnasium env",
    )
    parser.add_argument(
        "--replay",
        action="store_true",
        help="for an algorithm: one that learns from all that was played so far",
    )
    parser.add_argument("--into", metavar="FOLDER", help="folder to write; default: NAME")
    parser.add_argument(
        "--again",
        action="store_true",
        help="write the files of this version's template over those of an earlier one",
    )
    options = parser.parse_args(arguments)
    new = New(options.kind, options.name, {})
    if options.source is not None:
        new = _from_gymnasium(new, options.source)
    if options.replay:
        if new.kind != "algorithm":
            raise ConfigError(
                f"--replay is for an algorithm, got {options.kind}",
                hint="rlcore new algorithm my-algorithm --replay",
            )
        new = replace(new, kind="replay")
    folder = Path(options.into or options.name).absolute()
    files = write(new, folder, again=options.again)
    for file in files:
        print(f"  {file.relative_to(folder.parent)}")
    path = options.into or options.name
    command = pip_install(f"-e './{path}[test]'")
    print(f"next: {command}; rlcore check {_check_arguments(new)}")
    return 0


def _check_arguments(new: New) -> str:
    """Return the arguments of `rlcore check` for the new package.

    For a hook they name the plugin, for other kinds the component; a package of configuration files
    is checked as the env that these define.
    """
    return new.package if new.kind == "hook" else f"{new.of_kind} {new.package}"


def _from_gymnasium(new: New, source: str) -> New:
    """Return a package with configuration files of `env=gymnasium` for an env of gymnasium.

    Args:
        new: the package that the command line asks for.
        source: `gymnasium:ID`.

    Raises:
        ConfigError: the kind is not "env", `source` has another form, or rlcore-env-gymnasium is
            not installed.
    """
    if new.kind != "env" or not source.startswith(GYMNASIUM) or source == GYMNASIUM:
        raise ConfigError(
            f"--from takes {GYMNASIUM}ID, of an env, got {source!r}",
            hint="rlcore new env my-pole --from gymnasium:CartPole-v1",
        )
    env_id = source.removeprefix(GYMNASIUM)
    try:
        from rlcore_env_gymnasium.propose import mapping_of
    except ImportError as error:
        raise ConfigError(
            f"--from {GYMNASIUM} needs rlcore-env-gymnasium, not installed",
            hint=install_command(["gymnasium"]),
        ) from error
    answers = {"id": env_id, "mapping": mapping_of(env_id), "summary": f"{env_id} of gymnasium"}
    return New("gymnasium", new.name, answers)
