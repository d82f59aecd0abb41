"""Turn a journal into something to read: a page, a text for terminals, or plain data."""
# SPDX-License-Identifier: Apache-2.0

from .page import html
from .summary import summarize as json
from .terminal import text

__all__ = ["html", "json", "text"]
