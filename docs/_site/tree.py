"""Lays out what Sphinx reads: pages of docs/ and of the root, and a reference from docstrings.

    python -m docs._site.tree build/docs/source

Pages are written for readers of the sources, where links lead from file to file. On the site, a
link to a page that is there leads to it, one to another file of the sources becomes its name, and
a public name of the library in code leads to the reference.
"""

import pathlib
import posixpath
import re
import shutil
import sys

from docs._site import reference

ROOT = pathlib.Path(__file__).resolve().parents[2]
SITE = ROOT / "docs" / "_site"
# Of the root, by their places on the site.
PROJECT_PAGES = {
    "CHANGELOG.md": "project/changelog.md",
    "CODE_OF_CONDUCT.md": "project/code-of-conduct.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
}
# Where the contents of folders hang, beside what contents.md has.
CHILDREN = {"decisions/index.md": "*", "benchmarks.md": "results/*"}
ASSETS = (".csv", ".png", ".svg")

_FENCE = re.compile(r"(^ *(`{3,}|:{3,}).*?^ *\2 *$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
_CODE = re.compile(r"(?<![\[`{}])`([\w.]+)(\(\))?`(?![\]`])")


def pages() -> dict[str, str]:
    """All pages, by their paths in the sources: where they are on the site."""
    found = {}
    for path in sorted((ROOT / "docs").rglob("*.md")):
        if SITE not in path.parents:
            name = path.relative_to(ROOT / "docs").as_posix()
            found[f"docs/{name}"] = re.sub(r"(^|/)README\.md$", r"\1index.md", name)
    return found | PROJECT_PAGES


def write(folder: pathlib.Path) -> None:
    """Writes the whole tree into an empty or new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(SITE / "conf.py", folder)
    shutil.copytree(SITE / "static", folder / "_static")
    for path in (ROOT / "docs").rglob("*"):
        if path.suffix in ASSETS and SITE not in path.parents:
            target = folder / path.relative_to(ROOT / "docs")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    places = pages()
    names = reference.write(folder / "reference")
    for source, place in places.items():
        text = on_site((ROOT / source).read_text(encoding="utf-8"), source, places, names)
        if place == "index.md":
            text += "\n" + (SITE / "contents.md").read_text(encoding="utf-8")
        if place in CHILDREN:
            text += f"\n```{{toctree}}\n:hidden:\n:glob:\n\n{CHILDREN[place]}\n```\n"
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def on_site(text: str, source: str, places: dict[str, str], names: set[str]) -> str:
    """The text of a page as the site has it; code blocks stay as they are."""
    pieces = _FENCE.split(text)[::3]
    fences = [match[0] for match in _FENCE.finditer(text)]
    changed = [_linked(piece, source, places, names) for piece in pieces]
    return "".join(a + b for a, b in zip(changed, [*fences, ""], strict=True))


def _linked(text: str, source: str, places: dict[str, str], names: set[str]) -> str:
    def link(match: re.Match[str]) -> str:
        label, target = match.groups()
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target) or not path:
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        here = posixpath.dirname(places[source])
        for page in (path, f"{path}/README.md"):
            if page in places:
                place = posixpath.relpath(places[page], here or ".")
                return f"[{label}]({place}{'#' + anchor if anchor else ''})"
        if path.endswith(ASSETS) and path.startswith("docs/"):
            return match[0]
        # What the site does not have.
        bare = label.strip("`")
        return f"`{path}`" if path.endswith(bare) else f"{label} (`{path}`)"

    def name(match: re.Match[str]) -> str:
        full = match[1]
        return f"{{py:obj}}`{full}`" if full in names else match[0]

    lines = []
    for line in _LINK.sub(link, text).split("\n"):
        lines.append(line if line.startswith("#") else _CODE.sub(name, line))
    return "\n".join(lines)


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))
