"""Who suggests the next candidate: templates, or a person's own list; and searches over templates."""
# SPDX-License-Identifier: Apache-2.0

from collections.abc import Sequence

from ..search import BestOf, Greedy
from .human import Human
from .template import LANGUAGES, Template, template

__all__ = ["Human", "Template", "best_of", "greedy", "template"]


def greedy(languages: Sequence[str] = LANGUAGES, families: int = 3) -> Greedy:
    """Climb: the ladder of every language first, then one parameter at a time around the best."""
    return Greedy(Template(languages), families=families)


def best_of(languages: Sequence[str] = LANGUAGES, n: int = 32, seed: int = 0) -> BestOf:
    """Random points of the templates' grids, the same ones for the same seed."""
    return BestOf(Template(languages), n=n, seed=seed)
