"""Template and human proposers: order, memory, languages, factories."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from warpsmith import propose  # noqa: E402
from warpsmith.errors import UnknownName  # noqa: E402
from warpsmith.propose import Human, Template  # noqa: E402
from warpsmith.search import Space  # noqa: E402
from warpsmith.spec import Candidate, Outcome, Proposer, Record, Task, Verdict  # noqa: E402

pytestmark = pytest.mark.plain


class Softmax(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)


TASK = Task("softmax", Softmax, lambda: [torch.randn(8, 40)])
TEMPLATE = Template(batch=64)


def record(candidate: Candidate) -> Record:
    return Record(
        TASK.id, TASK.name, candidate, "none", "none", verdict=Verdict(Outcome.WRONG_VALUE)
    )


def test_is_a_proposer_and_a_space():
    assert isinstance(TEMPLATE, Proposer)
    assert isinstance(TEMPLATE, Space)


def test_the_naive_rungs_come_first_across_languages():
    first = list(TEMPLATE.propose(TASK, []))[:4]
    assert [(c.language, c.parameters["rung"]) for c in first] == [
        ("cuda", 1), ("triton", 1), ("cuda", 2), ("triton", 2),
    ]  # fmt: skip


def test_what_has_a_record_is_not_proposed_again():
    template = Template(batch=5)
    seen: list[str] = []
    records: list[Record] = []
    for _ in range(4):
        batch = [c.id for c in template.propose(TASK, records)]
        assert len(batch) == 5
        assert not set(batch) & set(seen)
        seen += batch
        records += [record(c) for c in template.propose(TASK, records)]


def test_a_new_object_goes_on_where_another_stopped():
    first = list(Template(batch=6).propose(TASK, []))
    records = [record(c) for c in first[:3]]
    again = list(Template(batch=3).propose(TASK, records))
    assert [c.id for c in again] == [c.id for c in first[3:]]


def test_one_language_alone():
    found = Template(("triton",)).families(TASK)
    assert {f.language for f in found} == {"triton"}


def test_an_unknown_language_is_refused_with_the_known_ones():
    with pytest.raises(UnknownName, match="Did you mean 'cuda'"):
        Template(("cudo",))


def test_an_empty_answer_is_explained():
    template = Template(("triton",), batch=1000)
    everything = [record(c) for c in template.propose(TASK, [])]
    assert list(template.propose(TASK, everything)) == []
    assert template.explain() == "every candidate of the templates has been tried"


def test_factories_take_no_arguments():
    assert propose.template().name == "template"
    assert propose.greedy().name == "greedy(template)"
    assert propose.best_of().name.startswith("best_of(template")


def test_greedy_over_templates_starts_with_every_rung():
    batch = propose.greedy().propose(TASK, [])
    assert batch[0].id == TEMPLATE.build(TASK, TEMPLATE.families(TASK)[0], {"block": 128}).id


def test_human_proposes_its_list_once():
    mine = [Candidate(n, "torch", {"candidate.py": f"# {n}"}) for n in ("a", "b")]
    human = Human(mine)
    assert human.propose(TASK, []) == mine
    assert human.propose(TASK, [record(mine[0])]) == [mine[1]]
    assert human.propose(TASK, [record(c) for c in mine]) == []
    assert human.explain()
