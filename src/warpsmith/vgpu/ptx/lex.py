"""Cut PTX text into tokens, fast: one regular expression, comments dropped, places kept."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from bisect import bisect_right

from warpsmith.errors import PtxSyntaxError

_TOKEN = re.compile(
    r"""
    (?:\s+|//[^\n]*|/\*.*?\*/)                                   # skipped: no group
    |( 0[fF][0-9a-fA-F]{8}\b | 0[dD][0-9a-fA-F]{16}\b            # IEEE bits
     | 0[xX][0-9a-fA-F]+U? | 0[bB][01]+U?\b
     | \d+\.\d*(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+ | \d+U?
     | \.[A-Za-z_]\w*                                            # directives: `.reg.b32` are two
     | [%$_A-Za-z][\w$.%]*(?:::[\w.$%]+)*                        # words, dotted opcodes
     | "[^"\n]*"
     | [{}()\[\],;:|!@<>=+*-]
     )
    |(.)                                                         # anything else is an error
    """,
    re.VERBOSE | re.DOTALL,
)


class Tokens:
    """The tokens of a PTX text with a cursor; `places[i]` is the offset of token i."""

    def __init__(self, text: str):
        self.source = text
        self.texts: list[str] = []
        self.places: list[int] = []
        texts, places = self.texts.append, self.places.append
        for match in _TOKEN.finditer(text):
            kind = match.lastindex
            if kind == 1:
                texts(match.group(1))
                places(match.start())
            elif kind == 2:
                raise self._error(f"unexpected character {match.group(2)!r}", match.start())
        texts("")
        places(len(text))
        self._newlines = [m.start() for m in re.finditer("\n", text)]
        self.at = 0

    def line(self, index: int) -> int:
        """The line (from 1) of token `index`."""
        return bisect_right(self._newlines, self.places[index] - 1) + 1

    def peek(self) -> str:
        return self.texts[self.at]

    def next(self) -> str:
        text = self.texts[self.at]
        if text == "":
            raise self.error("the text ends in the middle of a statement")
        self.at += 1
        return text

    def accept(self, text: str) -> bool:
        """Step over `text` if it comes next."""
        if self.texts[self.at] == text:
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if self.texts[self.at] != text:
            found = self.texts[self.at] or "the end of the text"
            raise self.error(f"expected {text!r}, found {found!r}")
        self.at += 1

    def error(self, message: str, index: int | None = None) -> PtxSyntaxError:
        """A syntax error at the cursor, or at token `index`."""
        return self._error(message, self.places[self.at if index is None else index])

    def _error(self, message: str, place: int) -> PtxSyntaxError:
        start = self.source.rfind("\n", 0, place) + 1
        return PtxSyntaxError(message, self.source.count("\n", 0, place) + 1, place - start + 1)
