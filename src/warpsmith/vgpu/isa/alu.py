"""The ALU's instruction set: importing this module registers every family of rules."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from . import bits, compare, convert, floating, integer, video
from .form import RULES, emit

__all__ = ["RULES", "bits", "compare", "convert", "emit", "floating", "integer", "video"]
