"""`rlcore config import FILE [--out NAME.yaml]`: convert a YAML file of RLinf to a recipe.

The result for each key is listed. The recipe is written where `--config-dir` finds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlcore.cli.parser import Parser
from rlcore.contracts.errors import ConfigError

IMPORT = "import"


def main(arguments: Sequence[str]) -> int:
    """Translate the file, write the recipe and say what became of each key.

    Raises:
        ConfigError: a file that is missing or damaged, or names nothing that is installed.
    """
    parser = Parser(prog="rlcore config", description=__doc__)
    parser.add_argument("action", choices=[IMPORT], help="what to do with the file")
    parser.add_argument("file", metavar="FILE", help="a YAML file of RLinf")
    parser.add_argument(
        "--out",
        metavar="NAME.yaml",
        help="the recipe; it goes into a folder called experiment, here or below the folder that "
        "is named. Default: experiment/NAME.yaml, with the name of FILE",
    )
    parser.add_argument(
        "--config-dir",
        metavar="FOLDER",
        action="append",
        default=[],
        help="a folder with the groups that FILE names, besides its own; may be repeated",
    )
    options = parser.parse_args(arguments)
    file = Path(options.file).expanduser()
    if not file.is_file():
        problem = "is a folder" if file.is_dir() else "does not exist"
        raise ConfigError(f"{options.file} {problem}", hint="rlcore config import FILE.yaml")
    from rlcore.plugins.registry import load_plugins
    from rlcore_tools.rlinf import recipe
    from rlcore_tools.rlinf.reading import read
    from rlcore_tools.rlinf.translate import translate

    target = recipe.place(file, options.out)
    folders = [_folder(name) for name in options.config_dir]
    translation = translate(file, read(file, folders), load_plugins())
    text = recipe.text(file, translation)
    for line in recipe.lines(translation):
        print(line)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    verb = "train" if "algorithm" in translation.components else "eval"
    print(f"\nwritten: {target}")
    print(f"next: rlcore {verb} --config-dir {target.parent.parent} {target.stem} --dry-run")
    return 0


def _folder(name: str) -> Path:
    path = Path(name).expanduser().absolute()
    if not path.is_dir():
        raise ConfigError(f"the config folder {name!r} does not exist")
    return path
