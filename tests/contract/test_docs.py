"""Docs can't drift: hooks, links, commands and keys they name exist."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlcore.cli.main import main
from rlcore.contracts import hookspecs
from rlcore.contracts.specs import KINDS

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
# a path of the repository, written from its root; `rlcore/PART` and `plugins/<name>` stand for some
FOLDERS = "rlcore|plugins|configs|docs|benchmarks|examples|requirements|tests/(?:unit|contract|e2e)"
PATH = re.compile(rf"`((?:{FOLDERS})/[\w./-]*)`")
PLACEHOLDER = re.compile(r"\b[A-Z]+\b")


def without_code(text: str) -> str:
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def test_the_tables_of_hooks_and_kinds_are_those_of_the_code():
    """To write them anew: `python docs/make_reference.py`."""
    page = (ROOT / "docs/plugin-reference.md").read_text()
    assert page == runpy.run_path(str(ROOT / "docs/make_reference.py"))["written"](page)


def test_every_hook_is_documented_in_order():
    hooks = [name for name in vars(hookspecs) if name.startswith("rlcore_")]
    page = (ROOT / "docs/plugin-reference.md").read_text()
    rows = re.findall(r"^\| `(rlcore_\w+)` \|", page, flags=re.MULTILINE)
    assert len(hooks) > 5
    assert rows == hooks


def test_every_kind_of_component_is_documented_in_order():
    page = (ROOT / "docs/plugin-reference.md").read_text()
    table = page.split("| kind | used as |\n")[1].split("\n\n")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)) == KINDS
    assert {kind for kind in KINDS if f"\n    {kind} " in hookspecs.__doc__} == {*KINDS}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in LINK.findall(without_code(page.read_text())):
        if not target.startswith(("http://", "https://", "#", "mailto:")):
            path = page.parent / target.split("#")[0]
            assert path.exists(), f"{page.name} links to {target}"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.+)$", without_code(page.read_text()), flags=re.MULTILINE)
    plain = [re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", each) for each in headings]
    return {re.sub(r"[^\w\- ]", "", each.lower()).strip().replace(" ", "-") for each in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_into_a_page_find_their_heading(page):
    for target in LINK.findall(without_code(page.read_text())):
        path, _, anchor = target.partition("#")
        if anchor and not path.startswith(("http://", "https://")):
            other = page.parent / path if path else page
            assert other.suffix != ".md" or anchor in anchors(other), f"{page.name}: {target}"


def test_the_cheat_sheet_has_every_command(capsys):
    assert main(["help"]) == 0
    listed = re.findall(r"^  (\S+)  ", capsys.readouterr().out, re.MULTILINE)
    # those that other commands call, and help itself
    called = {"help", "protocol", "verify", "sweep"}
    sheet = (ROOT / "docs/commands.md").read_text()
    typed = set(re.findall(r"^rlcore ([\w-]+)", sheet, re.MULTILINE))
    assert len(listed) > 20 and {*listed} - called == typed


def test_the_index_has_every_page():
    docs = ROOT / "docs"
    linked = set(LINK.findall((docs / "README.md").read_text()))
    pages = {str(page.relative_to(docs)) for page in docs.rglob("*.md")} - {"README.md"}
    assert {page for page in pages if not page.startswith("results/")} - linked == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_paths_exist(page):
    for path in PATH.findall(page.read_text()):
        if not PLACEHOLDER.search(path):
            assert (ROOT / path).exists(), f"{page.name} names {path}"


def test_the_table_of_where_a_line_belongs_names_paths_from_the_root():
    """A module without its folder is one that a plugin or the package before it has."""
    page = (ROOT / "docs/design.md").read_text()
    rows = page.split("| you want to change |")[1].split("\n\n")[0].splitlines()[2:]
    assert len(rows) > 15
    ours = {path.name for folder in ("rlcore", "plugins") for path in (ROOT / folder).rglob("*.py")}
    for row in rows:
        assert PATH.search(row), f"no path: {row}"
        for name in re.findall(r"`([\w./-]+\.py)`", row):
            assert name in ours or PATH.match(f"`{name}`"), f"{name} in: {row}"


def test_the_tree_has_every_room_of_core():
    tree = (ROOT / "docs/design.md").read_text().split("```\nrlcore/\n")[1].split("plugins/\n")[0]
    rooms = {file.parent.name for file in (ROOT / "rlcore").glob("*/__init__.py")}
    assert set(re.findall(r"^  (\w+)/ ", tree, re.MULTILINE)) == rooms


def test_the_hook_of_the_page_passes_its_test(tmp_path, monkeypatch):
    page = (ROOT / "docs/plugin-hook.md").read_text()
    hook, test = (code for language, code in BLOCK.findall(page) if language == "python")
    (tmp_path / "my_gap").mkdir()
    (tmp_path / "my_gap/plugin.py").write_text(hook)
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, Any] = {}
    exec(test, names)
    names["test_the_worst_gap"](tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_make_targets_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for target in re.findall(r"`make ([a-z-]+)", page.read_text()):
        assert target in targets, f"{page.name} names make {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_extras_exist(page):
    project = (ROOT / "pyproject.toml").read_text()
    section = project.split("[project.optional-dependencies]")[1].split("\n[")[0]
    extras = set(re.findall(r"^([\w-]+) = ", section, flags=re.MULTILINE))
    for listed in re.findall(r"rlcore\[([\w,-]+)\]", page.read_text()):
        assert set(listed.split(",")) <= extras, f"{page.name} names extra {listed}"


def test_all_distributions_have_one_version_and_pin_core_to_it():
    projects = [ROOT / "pyproject.toml", *ROOT.glob("plugins/**/pyproject.toml")]
    versions = {re.search(r'^version = "(.+)"', p.read_text(), re.MULTILINE)[1] for p in projects}
    (version,) = versions
    major, minor, _ = version.split(".")
    for project in projects[1:]:
        assert f'"rlcore>={major}.{minor},<{major}.{int(minor) + 1}"' in project.read_text()
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()
    shown = subprocess.run(
        [sys.executable, "-c", "import rlcore; print(rlcore.__version__)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert shown.stdout.strip() == version


OTHER_LANGUAGES = [("README.md", "README.zh.md"), ("docs/quickstart.md", "docs/zh/quickstart.md")]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def commands(page: str) -> list[tuple[str, list[str]]]:
    """(language, lines) of its blocks of code, without comments and what aligns them."""
    return [
        (language, [re.sub(r"\s*#.*", "", line) for line in block.splitlines()])
        for language, block in BLOCK.findall((ROOT / page).read_text())
    ]


@pytest.mark.parametrize(("page", "translation"), OTHER_LANGUAGES)
def test_a_translation_types_the_same_commands(page, translation):
    assert commands(page) == commands(translation) and len(commands(page)) > 3
    for one, other in ((page, translation), (translation, page)):
        links = LINK.findall((ROOT / one).read_text())
        places = [(ROOT / one).parent / link.split("#")[0] for link in links]
        assert ROOT / other in [place.resolve() for place in places], f"{one} leads to {other}"


def test_the_address_of_the_repository_is_one_placeholder():
    """Until it has one. One page, in two languages, says so; all others lead there."""
    clones = re.compile(r"git clone (?:-\S+ )*(https?://\S+)")
    placeholder = "github.com/OWNER/REPOSITORY.git"
    named = set()
    for page in PAGES:
        for address in clones.findall(page.read_text()):
            if "huggingface.co/" not in address and "RoboTwin" not in address:
                assert address.strip("`").endswith(placeholder), f"{page.name}: {address}"
                named.add(str(page.relative_to(ROOT)))
    explained = {"docs/quickstart.md", "docs/zh/quickstart.md"}
    assert named == {"README.md", "README.zh.md", "docs/china.md", *explained}
    for page in named:
        text = (ROOT / page).read_text()
        assert ("`OWNER/REPOSITORY`" in text) == (page in explained)
        assert page in explained or "quickstart.md" in text


def test_a_picture_of_a_terminal_shows_what_a_command_prints_and_no_folder_of_this_machine(
    tmp_path,
):
    picture = tmp_path / "terminal.svg"
    command = "printf 'update 1/4: \\033[1msuccess\\033[0m 0.5\\n'; pwd"
    script = [sys.executable, str(ROOT / "docs/make_terminal.py")]
    subprocess.run([*script, str(picture), command], cwd=tmp_path, check=True)
    drawn = picture.read_text().replace("&#160;", " ")
    assert "update 1/4:" in drawn and ">~</text>" in drawn
    assert str(tmp_path) not in drawn and "@font-face" not in drawn
    assert subprocess.run([*script, str(picture), "false"], stderr=subprocess.DEVNULL).returncode
