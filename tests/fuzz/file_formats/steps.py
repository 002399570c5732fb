"""Choices that the bytes of an input make, for what is built of them."""

from typing import Any


class Steps:
    """Numbers that bytes give; zeros when they end."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._place = 0

    def left(self) -> bool:
        return self._place < len(self._content)

    def number(self, below: int) -> int:
        byte = self._content[self._place] if self.left() else 0
        self._place += 1
        return byte % below

    def one_of(self, choices: list[Any]) -> Any:
        return choices[self.number(len(choices))]
