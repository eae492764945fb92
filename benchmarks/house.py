"""Measure how well the code can be read: its size, its rooms, its public door and its words.

    python benchmarks/house.py [CHECKOUT]            of any version of the tree
    python benchmarks/house.py --since COMMIT        what of it stands in files that are new since
    python benchmarks/house.py --walks               how often a call sequence changes rooms

A walk follows one subject through core by the functions that are entered, in order:

* a room is a folder of `rlcore/`;
* a stay is a maximal stretch of consecutive entered functions of one room;
* a return is a stay in a room in which there was an earlier stay of the same walk.

Functions of libraries, of plugins and of standard library code don't count, nor do comprehensions,
modules being imported, and what other threads do.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from types import FrameType

from code_size import code_lines

# Names that do not tell, as modules, functions, classes, parameters or fields were called once.
WORDS = re.findall(
    r"\w+",
    """
    aside alike kept left settled trained remaining nothing rows course contents damage learned
    stored pickled imitation links played survive survived joined equipped depot startable
    moving reach roster process parts ranks heap postponed micro ways lanes lane needs exchange
    sides source tree trust noted shipped answers env_answers policy_answers algorithm_answers
    plugin_answers targets libraries output pour seat seats divided undivided rounding
    made_again env_slot task_description task_descriptions descriptions said told
    """,
)
FIELDS_WORDS = {
    "imitation": "the supervised loss of a policy on its own successes is called so",
    "kept": "what a forward leaves for the backward pass; what hooks keep over a resume",
    "micro": "micro-batches",
    "needs": "what an algorithm needs of env and policy",
    "output": "of a network, and standard output",
    "parts": "of a message, a text or an answer; shards are called shards",
    "process": "of the operating system",
    "ranks": "the number of a process or an accelerator",
    "rows": "of a batch, a vector env or a table",
    "sides": "train and eval (glossary)",
    "source": "where weights or settings come from",
    "targets": "what a critic regresses to",
    "trust": "the option --trust",
    "played": "an episode is played",
    "stored": "bytes on an accelerator",
    "joined": "put together into one",
    "trained": "parameters and networks that a step trains",
    "learned": "what training has changed",
    "task_description": "the contract's, as RLinf calls it (glossary: instruction)",
    "task_descriptions": "the contract's, as RLinf calls it (glossary: instruction)",
    "descriptions": "of EnvSpec, the contract's (glossary: instruction)",
    "said": "of EnvSpec, the contract's; of a run's record of its protocol",
}
"""Of :data:`WORDS`: those with a plain meaning that is not the one they were listed for, and the
contract's."""


def files_of(root: Path, top: str) -> list[Path]:
    """The modules of `rlcore` or of all plugins, without tests."""
    found = sorted((root / top).rglob("*.py"))
    return [file for file in found if "tests" not in file.relative_to(root).parts]


def named(tree: ast.Module) -> Iterator[str]:
    """What a module gives a name that others read: functions, classes, parameters, fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                    yield each.target.id


def words_in_use(root: Path) -> dict[str, list[str]]:
    """`{word: files of core that name something so}`, of :data:`WORDS`."""
    found: dict[str, list[str]] = {}
    for file in files_of(root, "rlcore"):
        names = {file.stem, *named(ast.parse(file.read_text(encoding="utf-8")))}
        for word in {name.strip("_").lower() for name in names} & {*WORDS}:
            found.setdefault(word, []).append(str(file.relative_to(root / "rlcore")))
    return found


def records_of_lineage(run: Path) -> list[str]:
    """Return the names of files of a run that name one of its checkpoints. The same file of each
    checkpoint counts once."""
    files = (file for file in run.rglob("*") if file.suffix not in (".safetensors", ".parquet"))
    texts = {file.name: file.read_bytes() for file in files if file.is_file()}
    return sorted(name for name, text in texts.items() if re.search(rb"\bstep_\d{6}", text))


def public_modules(root: Path) -> int:
    """Modules in the tables of docs/api.md."""
    page = root / "docs/api.md"
    rows = re.compile(r"^\| `rlcore[\w.]*` \| .+? \| (all|[`\w ]+) \|$", re.MULTILINE)
    return len(rows.findall(page.read_text(encoding="utf-8"))) if page.is_file() else 0


def measure(root: Path) -> None:
    """Print the figures of a checkout."""
    lines: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for top in ("rlcore", "plugins"):
        for file in files_of(root, top):
            parts = file.relative_to(root).parts
            room = parts[1] if len(parts) > 2 else "(root)"
            for name in {top, f"{top}/{room}"}:
                lines[name] += code_lines(file.read_text(encoding="utf-8"))
                files[name] += 1
    for name in sorted(lines):
        print(f"{lines[name]:7,d} lines {files[name]:4d} files  {name}")
    rooms = sum(name.startswith("rlcore/") and "(" not in name for name in lines)
    print(f"{lines['rlcore'] + lines['plugins']:7,d} lines in all")
    print(f"{rooms:7d} rooms, {files['rlcore/(root)']} files in the root")
    print(f"{public_modules(root):7d} public modules")
    used = words_in_use(root)
    jargon = {word: where for word, where in used.items() if word not in FIELDS_WORDS}
    print(f"{len(jargon):7d} words in use that do not tell")
    for word, where in jargon.items():
        print(f"        {word}: {', '.join(where)}")
    for word in sorted(used.keys() - jargon.keys()):
        print(f"        {word} stays in {len(used[word])} files: {FIELDS_WORDS[word]}")


def new_since(root: Path, commit: str) -> None:
    """Print, by distribution, the lines of code in files that have no ancestor in a commit. For git
    a file has moved if a third of it is as before."""
    words = ["git", "-C", root, "diff", "--name-status", "-M35%", "-l9999", commit, "HEAD"]
    rows = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
    added = {row.split("\t")[1] for row in rows if row.startswith("A")}
    lines: Counter[str] = Counter()
    others = 0
    for file in (file for top in ("rlcore", "plugins") for file in files_of(root, top)):
        name, size = str(file.relative_to(root)), code_lines(file.read_text(encoding="utf-8"))
        if name in added:
            lines[re.split(r"(?<=rlcore)/|/rlcore_|/hydra_plugins", name)[0]] += size
        else:
            others += size
    for name, size in lines.most_common():
        print(f"{size:7,d} lines in new files of {name}")
    print(f"{lines.total():7,d} lines in new files, {others:,d} in others")


# -- walks --------------------------------------------------------------------------------------

RUN = (
    "train", "env=toy", "model=toy", "algorithm=ppo", "cluster.backend=local",
    "cluster.component_placement={env: 0, rollout: 0, actor: 1}", "runner.max_epochs=1",
    "algorithm.update_epoch=1", "env.eval.trials_per_task=1",
)  # fmt: skip


class Walk:
    """The functions of core that are entered, in order, as (room, file, function)."""

    def __init__(self, core: Path) -> None:
        self._core = f"{core}/"
        self.entered: list[tuple[str, str, str]] = []
        self.left: list[tuple[str, int]] = []

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if code.co_filename.startswith(self._core) and not code.co_name.startswith("<"):
            file = code.co_filename[len(self._core) :]
            if event == "call":
                self.entered.append((file.partition("/")[0], file, code.co_qualname))
            elif event == "return":
                self.left.append((f"{file}:{code.co_qualname}", len(self.entered)))

    def between(self, first: str, last: str, where: int) -> list[tuple[str, str, str]]:
        """Return what is entered from a function on until another is, both named FILE:FUNCTION, or
        until the first returns (`last` is empty); of the occurrence `where` of the first."""
        marks = [f"{file}:{name}" for _, file, name in self.entered]
        begin = [number for number, mark in enumerate(marks) if mark == first][where]
        if last:
            return self.entered[begin : marks.index(last, begin + 1)]
        return self.entered[begin : next(n for mark, n in self.left if mark == first and n > begin)]


WALKS = {
    "a configuration": ("config/compose.py:compose", "", 0),
    "train() before its first worker": (
        "training/train.py:run", "workers/local_group.py:LocalGroup._launch", 0,
    ),
    "an observation": (
        "workers/checked_env.py:CheckedEnv.chunk_step",
        "workers/checked_env.py:CheckedEnv.chunk_step", 0,
    ),
    "a trajectory": (
        "workers/group.py:WorkerGroup.hand_over", "workers/group.py:WorkerGroup.sync", 0,
    ),
    "weights": ("workers/group.py:WorkerGroup.sync", "", 1),
}  # fmt: skip
"""`{subject: (first function, the one that ends it, which occurrence of the first)}`."""


def stays(entered: list[tuple[str, str, str]]) -> list[str]:
    """The rooms of a walk, one entry a stay."""
    return [room for room, _ in groupby(room for room, _, _ in entered)]


def played(*words: str) -> Walk:
    """Carry out a command, and record what it enters."""
    import rlcore
    from rlcore.cli.main import main as command

    seen = Walk(Path(rlcore.__file__).parent)
    sys.setprofile(seen)
    code = command(words)
    sys.setprofile(None)
    if code:
        sys.exit(code)
    return seen


def tell(subject: str, entered: list[tuple[str, str, str]]) -> None:
    """Print a walk."""
    rooms = stays(entered)
    visited = dict.fromkeys(rooms)
    print(f"{subject}: {len(rooms)} stays in {len(visited)} rooms, "
          f"{len(rooms) - len(visited)} returns: {', '.join(visited)}")  # fmt: skip


def walk() -> None:
    """Play an update in one process, with rollout and actor apart, and resume it for another one;
    print the walks."""
    with tempfile.TemporaryDirectory() as folder:
        seen = played(*RUN, f"runner.logger.log_path={folder}")
        records = records_of_lineage(Path(folder))
        again = played("resume", f"{folder}/run", "runner.max_epochs=2")
    print(f"records of the lineage on disk: {', '.join(records)}")
    for subject, marks in WALKS.items():
        tell(subject, seen.between(*marks))
    start = "train() before its first worker"
    tell(f"{start}, of a resume", again.between(*WALKS[start]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", nargs="?", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--walks", action="store_true", help="play an update, and count")
    parser.add_argument("--since", metavar="COMMIT", help="what is new since then")
    asked = parser.parse_args()
    if asked.walks:
        walk()
    elif asked.since:
        new_since(asked.checkout, asked.since)
    else:
        measure(asked.checkout)


if __name__ == "__main__":
    main()
