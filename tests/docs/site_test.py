"""What `make docs` gives Sphinx: all pages, with links that lead on, and all public names.

Sphinx itself, in an environment of its own, checks the rest (tools/docs.sh).
"""

import ast
import pathlib
import re

import pytest

from docs._site import reference, tree

CONTENTS = (tree.SITE / "contents.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "source"
    tree.write(folder)
    return folder


def test_every_page_is_in_the_contents_once():
    listed = re.findall(r"^[a-z][\w/-]*$", CONTENTS, re.MULTILINE)
    below = tuple(
        f"{pathlib.PurePath(pattern).parent}/" for pattern in ("results/*", "decisions/*")
    )
    wanted = {
        place.removesuffix(".md")
        for place in [*tree.pages().values(), "reference/index.md"]
        if place != "index.md" and (place.endswith("/index.md") or not place.startswith(below))
    }
    assert len(listed) == len(set(listed))
    assert set(listed) == wanted


def test_links_lead_to_pages_of_the_site(folder):
    count = 0
    for page in folder.rglob("*.md"):
        text = re.sub(r"^ *(`{3,}|:{3,}).*?^ *\1", "", page.read_text(), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^()\s#]+)(?:#[^()\s]*)?\)", text):
            if not re.match(r"[a-z]+:", target):
                assert (page.parent / target).exists(), (page, target)
                count += 1
    assert count > 100


def test_links_to_other_files_become_their_names():
    places = {"docs/a.md": "a.md", "docs/guide/b.md": "guide/b.md"}
    text = "[b](guide/b.md#c) [cases.csv](../benchmarks/cases.csv) [a test](../tests/x.py)"
    assert tree.on_site(text, "docs/a.md", places, set()) == (
        "[b](guide/b.md#c) `benchmarks/cases.csv` a test (`tests/x.py`)"
    )
    assert tree.on_site("[a](../a.md)", "docs/guide/b.md", places, set()) == "[a](../a.md)"


def test_public_names_in_code_lead_to_the_reference():
    names = {"p.f"}
    text = "`p.f` `p.f()` [`p.f`](x:y) `p.g`\n\n```python\n`p.f`\n```\n"
    assert tree.on_site(text, "a", {"a": "a"}, names) == (
        "{py:obj}`p.f` {py:obj}`p.f` [`p.f`](x:y) `p.g`\n\n```python\n`p.f`\n```\n"
    )


def test_every_public_name_has_an_entry_with_words_of_its_own(folder):
    sources = reference.Sources()
    for module, entries in reference.public().items():
        page = (folder / "reference" / f"{module.split('.')[-1]}.md").read_text(encoding="utf-8")
        assert entries
        for entry in entries:
            docstring = ast.get_docstring(sources.find(module, entry.name)[1])
            assert docstring, entry.name
            _, begin, rest = page.partition(f" {module}.{entry.name}{entry.signature}\n")
            assert begin, entry.name
            words = rest.partition("\n## ")[0].split()
            assert " ".join(reference.markdown(docstring).split()) in " ".join(words), entry.name


def test_docstrings_become_markdown():
    docstring = """Adds.

    T  time

More, of `L*D` and [L*D, B].

Args:
  x: T [T, B], all
    of it.
  y, z: others.

Returns:
  A pair.

  a: one.
"""
    assert reference.markdown(docstring) == (
        "Adds.\n\n```none\nT  time\n```\n\nMore, of `L*D` and \\[L\\*D, B\\].\n\n"
        "**Args**\n\n- `x`: T \\[T, B\\], all of it.\n- `y, z`: others.\n\n"
        "**Returns**\n\nA pair.\n\n- `a`: one."
    )
