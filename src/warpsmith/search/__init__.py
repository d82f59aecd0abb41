"""Search: proposers made of proposers. They remember nothing and read everything off the records."""
# SPDX-License-Identifier: Apache-2.0

from .best_of import BestOf
from .greedy import Greedy
from .space import Family, Space

__all__ = ["BestOf", "Family", "Greedy", "Space"]
