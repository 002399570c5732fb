"""Paragraphs and tables as the documents have them."""

import re
import textwrap


def wrapped(text: str, indent: str = "") -> list[str]:
    """A paragraph in lines of the length that the documents have."""
    return textwrap.wrap(
        text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def table(rows: list[list[str]]) -> list[str]:
    """The lines of a table; the first row is the head."""
    head, *body = [re.sub(r"\|  (?=\|)", "| ", f"| {' | '.join(row)} |") for row in rows]
    return [head, "|" + " --- |" * len(rows[0]), *body]
