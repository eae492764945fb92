"""Count the lines of code that a third party writes for an env and for an algorithm.

    python benchmarks/lines_to_write.py [lerobot=CHECKOUT] [rlinf=CHECKOUT] [benchmarl=CHECKOUT]

Ours are the packages in `examples/`; of the others, the files that the newest comparable part of
theirs consists of, at the commit that CHECKOUT (a repository, bare or not) is at. Lines as
`code_size.py` counts them: no blanks, comments and docstrings; of YAML, no blanks and comments.
`FILE:NAME` counts one function or class with its decorators.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import tempfile
from pathlib import Path

from code_size import code_lines
from rlcore_tools.new.make import New, write

ROOT = Path(__file__).parents[1]
FETCH, RLOO = "examples/fetch/fetch_for_rlcore", "examples/rloo/rloo_for_rlcore"
WRITTEN: dict[str, dict[str, tuple[str, ...]]] = {
    "rlcore": {
        "env": tuple(f"{FETCH}/{name}.py" for name in ("plugin", "settings", "env", "simulator")),
        "algorithm": tuple(f"{RLOO}/{name}.py" for name in ("plugin", "settings", "rloo")),
    },
    "lerobot": {
        "env": ("src/lerobot/envs/metaworld.py", "src/lerobot/envs/configs.py:MetaworldEnv"),
        "algorithm": (
            "src/lerobot/rl/algorithms/sac/configuration_sac.py",
            "src/lerobot/rl/algorithms/sac/sac_algorithm.py",
        ),
    },
    "rlinf": {
        "env": (
            "rlinf/envs/metaworld/metaworld_env.py", "rlinf/envs/metaworld/venv.py",
            "rlinf/envs/metaworld/utils.py",
            "examples/embodiment/config/env/metaworld_50.yaml",
        ),
        "algorithm": ("rlinf/algorithms/advantages.py:compute_grpo_advantages",),
    },
    "benchmarl": {
        "env": (
            "benchmarl/environments/pettingzoo/common.py",
            "benchmarl/environments/pettingzoo/simple_spread.py",
            "benchmarl/conf/task/pettingzoo/simple_spread.yaml",
        ),
        "algorithm": ("benchmarl/algorithms/iddpg.py", "benchmarl/conf/algorithm/iddpg.yaml"),
    },
}  # fmt: skip
"""What is counted, by system."""


def text_of(checkout: Path, path: str) -> str:
    """A file of a checkout: of the tree, or of its last commit where there is none."""
    if (checkout / path).is_file():
        return (checkout / path).read_text(encoding="utf-8")
    words = ["git", "-C", str(checkout), "show", f"HEAD:{path}"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def counted(checkout: Path, named: str) -> int:
    """Lines of code of a file, or of one of its functions or classes."""
    path, _, name = named.partition(":")
    source = text_of(checkout, path)
    if not path.endswith(".py"):
        lines = (line.strip() for line in source.splitlines())
        return sum(bool(line) and not line.startswith("#") for line in lines)
    if not name:
        return code_lines(source)
    (found,) = (
        node
        for node in ast.parse(source).body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name
    )
    first = min([found.lineno, *(one.lineno for one in found.decorator_list)])
    return code_lines("\n".join(source.splitlines()[first - 1 : found.end_lineno]))


def template_env() -> int:
    """Lines of code of what `rlcore new env` writes."""
    with tempfile.TemporaryDirectory() as folder:
        files = write(New("env", "my-reach", {}), Path(folder) / "new")
        written = [file for file in files if file.suffix == ".py" and "tests" not in file.parts]
        return sum(code_lines(file.read_text(encoding="utf-8")) for file in written)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkouts", nargs="*", metavar="SYSTEM=CHECKOUT")
    given = dict(each.split("=", 1) for each in parser.parse_args().checkouts)
    places = {"rlcore": ROOT, **{name: Path(path) for name, path in given.items()}}
    print(f"{template_env():5d}  rlcore: env of the template")
    for system, checkout in places.items():
        for what, files in WRITTEN[system].items():
            sizes = {each: counted(checkout, each) for each in files}
            print(f"{sum(sizes.values()):5d}  {system}: {what}")
            for each, size in sizes.items():
                print(f"       {size:5d}  {each}")


if __name__ == "__main__":
    main()
