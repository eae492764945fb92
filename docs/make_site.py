"""Prepare the pages of the documentation site: `make docs`.

The pages in docs/ are plain Markdown that reads well in a clone. A site has no clone around it, so
what they link to outside of docs/ becomes a page too, and the reference is written from the code:
hooks, commands, keys, signatures.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
OUT = ROOT / "build/pages"
LINK = re.compile(r"(\]\()([^)\s#]+)([)#])")
CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
LONG = ("train", "protocol", "verify")
"""Commands that have no section: one has a page, and two are called by `rlcore eval`."""
LANGUAGES = {".py": "python", ".sh": "bash", ".yaml": "yaml", ".yml": "yaml"}


def main() -> None:
    """Write all pages anew."""
    shutil.rmtree(OUT, ignore_errors=True)
    todo = [path for path in sorted(DOCS.rglob("*")) if path.is_file() and path.suffix != ".py"]
    done = set(todo)
    while todo:
        for linked in write_page(todo.pop()):
            if linked not in done:
                done.add(linked)
                todo.append(linked)
    reference = OUT / "reference"
    reference.mkdir()
    (reference / "hooks.md").write_text(hooks())
    (reference / "commands.md").write_text(commands())
    (reference / "keys.md").write_text(keys())
    (reference / "api.md").write_text(api())
    print(f"{len(list(OUT.rglob('*.md')))} pages in {OUT.relative_to(ROOT)}")


def place(path: Path) -> Path:
    """Return where the page of a file or folder of the repository is, below :data:`OUT`."""
    if path.is_relative_to(DOCS) and not path.is_dir():
        return OUT / path.relative_to(DOCS)
    name = path.relative_to(ROOT)
    return OUT / "source" / (name if path.suffix == ".md" else f"{name}.md")


def write_page(path: Path) -> list[Path]:
    """Write the page of a file or folder; return what of the repository it links to."""
    page = place(path)
    page.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        names = sorted(each.name for each in path.iterdir() if not each.name.startswith("_"))
        page.write_text(f"# {path.relative_to(ROOT)}\n\n" + "".join(f"* `{n}`\n" for n in names))
        return []
    if path.suffix != ".md":
        if path.is_relative_to(DOCS):
            shutil.copyfile(path, page)
        else:
            code = fenced(path.read_text(), LANGUAGES.get(path.suffix, ""))
            page.write_text(f"# {path.relative_to(ROOT)}\n\n{code}")
        return []
    linked = []

    def lead(found: re.Match[str]) -> str:
        target = found[2]
        if target.startswith(("http:", "https:", "mailto:")):
            return found[0]
        path_to = (path.parent / target).resolve()
        linked.append(path_to)
        return f"{found[1]}{os.path.relpath(place(path_to), page.parent)}{found[3]}"

    parts = CODE.split(path.read_text())  # every second one is code
    parts[::2] = [LINK.sub(lead, part) for part in parts[::2]]
    page.write_text("".join(parts))
    return linked


def hooks() -> str:
    """Return the page of all hooks, in the order of a run, as their docstrings tell them."""
    tree = ast.parse((ROOT / "rlcore/contracts/hookspecs.py").read_text())
    told = [
        f"## {each.name}\n\n{fenced(signature(each), 'python')}\n{ast.get_docstring(each)}\n"
        for each in tree.body
        if isinstance(each, ast.FunctionDef) and each.name.startswith("rlcore_")
    ]
    return "# Hooks\n\n[How they are used](../plugin-reference.md).\n\n" + "\n".join(told)


def api() -> str:
    """Return the page of public modules: what each is for, and its signatures."""
    page = "# Public signatures\n\n[What they are for](../api.md).\n"
    for block in (DOCS / "api-signatures.txt").read_text().split("\n\n")[1:]:
        module, _, signatures = block.partition("\n")
        path = ROOT.joinpath(*module.split("."))
        source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        about = ast.get_docstring(ast.parse(source.read_text())) or ""
        page += f"\n## {module}\n\n{about.partition(chr(10) * 2)[0]}\n\n"
        page += fenced(textwrap.dedent(signatures), "python")
    return page


def signature(function: ast.FunctionDef) -> str:
    """Return the first line of a function, without its colon."""
    head = f"{function.name}({ast.unparse(function.args)})"
    return f"{head} -> {ast.unparse(function.returns)}" if function.returns else head


def commands() -> str:
    """Return the page of all commands, as `--help` tells them."""
    listed = re.findall(r"^  (\S+)  ", rlcore("help"), re.MULTILINE)
    told = (f"## {name}\n\n{fenced(rlcore(name, '--help'))}" for name in listed if name not in LONG)
    return "# Commands\n\n" + fenced(rlcore("--help")) + "\n" + "\n".join(told)


def keys() -> str:
    """Return the page of groups and keys, as `rlcore train --help` tells them."""
    return "# Keys\n\n" + fenced(rlcore("train", "--help"))


def rlcore(*words: str) -> str:
    """Return what a command of this clone prints."""
    command = [str(Path(sys.executable).with_name("rlcore")), *words]
    env = {**os.environ, "COLUMNS": "110", "NO_COLOR": "1"}
    return subprocess.run(command, env=env, text=True, check=True, capture_output=True).stdout


def fenced(text: str, language: str = "") -> str:
    """Return text as a block of code."""
    return f"````{language}\n{text.strip()}\n````\n"


if __name__ == "__main__":
    main()
