"""The pages, and the blocks of code in them."""

import pathlib
import re
import textwrap
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted(
    p.relative_to(ROOT).as_posix()
    for p in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if p.parent.name not in ("_site", "results")
)

_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str) -> Iterator[tuple[int, str]]:
    """The blocks of a language in a page: the line before each, and its text."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        if match[2] == language:
            yield text[: match.start(3)].count("\n"), textwrap.dedent(match[3])


def run(page: str, line: int, code: str, namespace: dict) -> None:
    """Runs a block; failures show the line of the page."""
    exec(compile("\n" * line + code, str(ROOT / page), "exec"), namespace)
