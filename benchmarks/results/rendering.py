"""Writes the pages and draws the charts of docs/results, where they are not as they must be."""

import argparse
import hashlib
import pathlib
import re
from collections.abc import Mapping
from types import ModuleType

from benchmarks.results import pages, tables
from benchmarks.results.files import ROOT, File, published, published_name, read_all
from benchmarks.results.tables import Table


def digest(file: File) -> str:
    """What a chart is stamped with: it tells which contents of the file it shows."""
    return hashlib.sha256(file.path.read_bytes()).hexdigest()


def charts(file: File) -> list[tuple[pathlib.Path, Table, str]]:
    """The charts that a file must have: path, table and pass."""
    return [
        (pages.chart_path(file, table, pass_), table, pass_)
        for table in tables.of_file(file)
        for pass_ in table.passes()
        if pages.has_chart(table, pass_)
    ]


def stamp_of(chart: pathlib.Path) -> str | None:
    """The digest that a chart has, None of a file that is none or has none."""
    # Pillow comes with matplotlib, and is needed for charts alone.
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(chart) as image:
            return image.text.get("Source")  # type: ignore[attr-defined]  # of PNGs
    except (FileNotFoundError, UnidentifiedImageError):
        return None


def _is_generated(path: pathlib.Path) -> bool:
    """Whether `render` wrote it: what people add to the folder stays."""
    if path.suffix == ".md":
        return path.read_text().startswith(pages.MADE_OF)
    return stamp_of(path) is not None


def render(root: pathlib.Path = ROOT) -> list[pathlib.Path]:
    """Writes what is not as it must be; removes pages and charts of no file; returns the paths."""
    changed = []
    texts = pages.texts(root)
    for path, text in texts.items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            changed.append(path)
    wanted = set(texts)
    for file in read_all(root):
        for path, table, pass_ in charts(file):
            wanted.add(path)
            if stamp_of(path) != digest(file):
                from benchmarks import charts as drawing

                drawing.draw_speed(
                    table.results, table.group, pass_, path, metadata={"Source": digest(file)}
                )
                changed.append(path)
    folder = root / "docs" / "results"
    for path in sorted([*folder.glob("*.md"), *folder.glob("*.png")]):
        if path not in wanted and _is_generated(path):
            path.unlink()
            changed.append(path)
    return changed


def require_commit(commit: str) -> None:
    """Of sources with changes nothing is published; to be asked before a run that takes long.

    Args:
      commit: what machine.commit() returns.

    Raises:
      ValueError: there are changes, or no commit is known.
    """
    if not re.fullmatch("[0-9a-f]+", commit):
        raise ValueError(f"results must be of a commit, without changes to it; here is {commit!r}.")


def check_publish_option(
    parser: argparse.ArgumentParser,
    kind: ModuleType,
    commit: str,
    preamble: Mapping[str, str],
    cpu: str | None,
) -> None:
    """Ends the program with an error of --publish if `publish` would refuse what it measures.

    Args:
      parser: of the program.
      kind, preamble, cpu: as of `publish`.
      commit: what machine.commit() returns.
    """
    try:
        require_commit(commit)
        _path_to_publish(kind, preamble, cpu, ROOT)
    except ValueError as error:
        parser.error(f"--publish: {error}")


def _path_to_publish(
    kind: ModuleType, preamble: Mapping[str, str], cpu: str | None, root: pathlib.Path
) -> pathlib.Path:
    """Where `publish` writes.

    Raises:
      ValueError: there is such a file already.
    """
    path = kind.folder(root) / published_name(published(preamble, kind.PREAMBLE), cpu)
    if path.exists():
        raise ValueError(f"{path} is there already; to replace it, delete it and publish again.")
    return path


def publish(
    kind: ModuleType,
    preamble: Mapping[str, str],
    notes: list[str],
    lines: list,
    cpu: str | None,
    root: pathlib.Path = ROOT,
) -> pathlib.Path:
    """Writes a file of accuracy or of paths, and the table of it; returns the file's path.

    Args:
      kind: results.accuracy or results.paths.
      preamble: of the run.
      notes, lines: of the file, see `File` of the kind.
      cpu: for the file's name; None for what the CPU calls itself.

    Raises:
      ValueError: there is such a file already.
    """
    path = _path_to_publish(kind, preamble, cpu, root)
    kept = published(preamble, kind.PREAMBLE)
    kind.write(kind.File(path, kept, notes, lines))
    render(root)
    return path
