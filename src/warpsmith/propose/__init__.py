"""Who suggests the next candidate: templates, or a person's own list."""
# SPDX-License-Identifier: Apache-2.0

from .human import Human
from .template import Template, template

__all__ = ["Human", "Template", "template"]
