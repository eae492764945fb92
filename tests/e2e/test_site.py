"""The documentation as a site: every page is in its menu, and no link of it leads nowhere."""

from __future__ import annotations

import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ELSEWHERE = re.compile(r"https?:|mailto:|javascript:|data:")


def pages(menu: list[object]) -> list[str]:
    """The pages of a menu, from top to bottom."""
    found: list[str] = []
    for entry in menu:
        if isinstance(entry, dict):
            found += pages([each for part in entry.values() for each in part])
        else:
            found.append(str(entry))
    return found


def test_the_menu_has_every_page_once():
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    found = pages(config["nav"])
    written = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    generated = {page for page in found if page.startswith("reference/")}
    assert sorted(found) == sorted(written | generated)
    assert generated == {f"reference/{name}.md" for name in ("hooks", "commands", "keys", "api")}


class Page(HTMLParser):
    """The links of an HTML file, what it loads, and what of it can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value}
        self.ids |= {values["id"]} if "id" in values else set()
        links = [values[name] for name in ("href", "src") if name in values]
        self.links += links
        self.loaded += [] if tag == "a" else links


def dead_links(site: Path) -> list[str]:
    """`PAGE: LINK` for each that leads to no file or to no place in it."""
    read = {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    dead = []
    for path, page in read.items():
        for link in page.links:
            if ELSEWHERE.match(link):
                continue
            target, _, place = link.partition("#")
            to = (path.parent / unquote(target)).resolve() if target else path
            to = to / "index.html" if to.is_dir() else to
            if not to.exists() or (place and to in read and unquote(place) not in read[to].ids):
                dead.append(f"{path.relative_to(site)}: {link}")
    return dead


def test_dead_links_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<p id="x"><a href="b.html">b</a><a href="#x">x</a>')
    (tmp_path / "c.html").write_text('<a href="a.html#x">x</a><a href="a.html#y">y</a>')
    assert sorted(dead_links(tmp_path)) == ["a.html: b.html", "c.html: a.html#y"]


@pytest.mark.long
def test_the_site_is_built_and_needs_no_network():
    built = subprocess.run(["make", "docs"], cwd=ROOT, capture_output=True, text=True)
    if built.returncode and "No matching distribution" in built.stderr:
        pytest.skip("what builds the site can't be installed here")
    assert built.returncode == 0, built.stdout + built.stderr
    other = ["-q", "-t", "mkdocs", "-d", "build/site-properdocs"]
    subprocess.run([".venv-site/bin/properdocs", "build", *other], cwd=ROOT, check=True)
    for site in (ROOT / "build/site", ROOT / "build/site-properdocs"):
        assert len(list(site.rglob("*.html"))) > 60
        assert dead_links(site) == []
    for path in (ROOT / "build/site").rglob("*.html"):
        assert [each for each in Page(path).loaded if each.startswith("http")] == [], path
