"""Programs that write kernels for pieces of a PyTorch model: capture, cut into regions, write.

plan(task) -> Plan or NoPlan            what the reference computes, as regions in order
families(plan, "cuda") -> [Family]      the ladder of rungs, with parameters to tune
candidate(plan, task, family, point)    the files of one candidate
"""
# SPDX-License-Identifier: Apache-2.0

from .generate import Family, candidate, families, points
from .plan import NoPlan, Plan, plan

__all__ = ["Family", "NoPlan", "Plan", "candidate", "families", "plan", "points"]
