"""Who suggests the next candidate: templates, or a person's own list; and searches over templates."""
# SPDX-License-Identifier: Apache-2.0

from ..search import BestOf, Greedy
from .human import Human
from .template import Template, template

__all__ = ["Human", "Template", "best_of", "greedy", "template"]


def greedy() -> Greedy:
    """The factory behind the entry point "greedy": a climb over the templates."""
    return Greedy(Template())


def best_of() -> BestOf:
    """The factory behind the entry point "best-of": random points of the templates' grids."""
    return BestOf(Template())
