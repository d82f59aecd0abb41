"""The page: whole, self-contained, escaped, and plain about what is modelled and what lost."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser

import made_runs
import pytest

from warpsmith import report
from warpsmith.report import plots

pytestmark = pytest.mark.plain
VOID = {"meta", "br", "hr", "img", "link", "input"}


class Page(HTMLParser):
    """Every element with its attributes and the text in it, after checking that tags balance."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[dict] = []
        self.elements: list[dict] = []
        self.feed(text)
        assert not self.open, f"unclosed {[e['tag'] for e in self.open]}"

    def handle_starttag(self, tag, attributes):
        element = {"tag": tag, "text": "", **dict(attributes)}
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attributes):
        self.elements.append({"tag": tag, "text": "", **dict(attributes)})

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1]["tag"] == tag, f"</{tag}> closes <{self.open[-1]['tag']}>"
        self.open.pop()

    def handle_data(self, data):
        for element in self.open:
            element["text"] += data

    def all(self, tag, **wanted):
        return [
            e
            for e in self.elements
            if e["tag"] == tag
            and all(v in (e.get(k.rstrip("_")) or "").split() for k, v in wanted.items())
        ]

    @property
    def text(self):
        return re.sub(r"\s+", " ", self.all("main")[0]["text"])


@pytest.fixture
def page(tmp_path):
    def draw(records=None, **settings):
        number = len(list(tmp_path.iterdir()))
        with made_runs.journal(tmp_path / f"{number}.sqlite", records, **settings) as journal:
            path = report.html(journal, tmp_path / f"{number}.html")
        return Page(path.read_text(encoding="utf-8"))

    return draw


def test_needs_nothing_from_outside(page):
    drawn = page()
    assert not drawn.all("script")
    assert not drawn.all("link")
    assert not drawn.all("img")
    for element in drawn.elements:
        assert not {"src", "srcset", "href", "onload", "onclick"} & element.keys()
    style = drawn.all("style")[0]["text"]
    assert "url(" not in style
    assert "@import" not in style
    assert "prefers-color-scheme: dark" in style
    assert drawn.all("meta", name="viewport")


@pytest.mark.parametrize("modelled", [True, False])
def test_modelled_times_are_named_so_and_measured_ones_are_not(page, modelled):
    drawn = page(made_runs.story(modelled))
    assert ("Times are modelled, not measured." in drawn.text) is modelled
    assert ("best so far (modelled)" in drawn.text) is modelled
    assert ("time (modelled)" in drawn.text) is modelled
    assert ("95 % confidence intervals" in drawn.text) is not modelled


def test_every_candidate_has_a_row_with_its_outcome_and_message(page):
    drawn, story = page(), made_runs.story()
    rows = [r["text"] for r in drawn.all("tr")]
    for record in story:
        row = " ".join(next(r for r in rows if record.candidate.name in r.split()).split())
        outcome = "right" if record.right else record.verdict.outcome.value
        assert outcome in row
        assert record.right or record.verdict.message in row
        assert not record.right or "32" in row.split()
        for name, value in record.candidate.parameters.items():
            assert f"{name}={value}" in row


def test_losers_and_missing_baselines_are_shown(page):
    drawn = page(made_runs.story(modelled=False))
    slower = [e["text"] for e in drawn.all("span", class_="slower")]
    assert slower == ["0.64× [0.60, 0.68]", "0.46× [0.42, 0.50]"]
    assert "no time: the reference synchronizes" in drawn.text
    assert "3.25× [3.21, 3.29]" in drawn.text


def test_plots_have_a_mark_for_every_candidate(page):
    drawn = page()
    # two sizes of each plot, and one mark each in the key
    titles = [e["text"] for e in drawn.all("title")]
    for record in made_runs.story():
        of_plot = [
            t for t in titles if t.startswith(f"#{_number(record)} {record.candidate.name}: ")
        ]
        in_roofline = record.right and record.analysis.roofline
        assert len(of_plot) == (4 if in_roofline else 2), record.candidate.name
    assert len(drawn.all("circle", class_="record")) == 2 * 3 + 2 * 1 + 1
    assert len(drawn.all("path", class_="wrong")) == 2 * 5 + 1
    assert "79 % of the roof" in drawn.text


def _number(record):
    return [r.candidate.name for r in made_runs.story()].index(record.candidate.name) + 1


def test_the_source_of_the_best_has_every_line_once(page):
    drawn = page()
    source = made_runs.story()[-1].candidate.files["softmax.cu"]
    lines = [
        e["text"].rstrip("\n")
        for e in drawn.all("span")
        if e.get("id", "").startswith("softmax.cu-")
    ]
    assert lines == source.splitlines()
    assert 'a < b && "quoted & <angled>"' in "\n".join(lines)


def test_candidates_cannot_inject_markup(page):
    evil = "<script>alert(1)</script>"
    wrong = made_runs.wrong(evil, made_runs.Outcome.FAULT, evil, parameters={"p": evil}, note=evil)
    right = made_runs.right(evil, 5.0, parameters={"p": evil}, note=evil)
    drawn = page([wrong, right], proposer=evil)
    assert not drawn.all("script")
    assert drawn.text.count(evil) >= 6


def test_failures_are_grouped_with_their_source_line(page):
    drawn = page()
    groups = [" ".join(e["text"].split()) for e in drawn.all("div", class_="failure")]
    assert len(groups) == 4
    assert groups[0].startswith("wrong value #5 fast-exp, #6 fast-exp-2")
    here = [e["text"].strip() for e in drawn.all("span", class_="here")]
    assert here == [
        '13    if (a < b && "quoted & <angled>") { }',
        "12        sum += __expf(x[blockIdx.x * cols + i]);",
        "11    for (int i = threadIdx.x; i <= cols; i += blockDim.x)",
    ]


def test_verified_cases_are_listed_with_their_errors(page):
    drawn = page()
    for case, error in (
        ("rows=1 cols=4097 seed=0", "3.1 %"),
        ("rows=1024 cols=4097 seed=2", "9.3 %"),
    ):
        assert any(case in r["text"] and error in r["text"] for r in drawn.all("tr"))


@pytest.mark.parametrize(
    ("records", "sentence"),
    [
        ([], "No candidate was judged yet."),
        (made_runs.story()[:1], "No candidate is right yet."),
        (made_runs.story()[:1], "nothing to place under the roofs"),
        (made_runs.story()[:1], "No candidate has a time, so there is nothing to plot."),
        ([made_runs.right("a", 2.0, roofline=False)], "No roofline: the records have no analysis"),
    ],
)
def test_what_is_missing_is_said(page, records, sentence):
    assert sentence in page(records).text


def test_a_device_without_counters_says_why_there_is_no_roofline(page):
    record = made_runs.right("a", 2.0, modelled=False)
    why = "cuda gives no counters; judge with device='virtual' for the explanation"
    record = dataclasses.replace(record, analysis=made_runs.Analysis(details={"unavailable": why}))
    assert f"No roofline: {why}." in page([record]).text


def test_a_right_record_that_nobody_timed_is_shown_as_such(page):
    record = dataclasses.replace(made_runs.right("a", 2.0), timing=None, analysis=None)
    assert "It is right; it was not timed." in page([record]).text


def test_cases_that_could_not_be_timed_say_why(page):
    record = made_runs.right("a", 2.0)
    why = {"rows=1 cols=1 seed=0": "it faults with a cold cache"}
    some = dataclasses.replace(record.timing, environment={"not timed": why})
    none = dataclasses.replace(record, timing=None, analysis=None, environment={"not timed": why})
    for one in (dataclasses.replace(record, timing=some), none):
        text = page([one]).text
        assert "Not timed: rows=1 cols=1 seed=0: it faults with a cold cache" in text


def test_the_error_of_the_model_is_told_or_said_to_be_unknown(page):
    record = made_runs.right("a", 2.0)
    assert "The model's measured error: ±18 % (median of 40 kernels)." in page([record]).text
    timing = dataclasses.replace(record.timing, environment={})
    text = page([dataclasses.replace(record, timing=timing)]).text
    assert "The model's error is not recorded." in text


def test_many_candidates_and_a_wide_range_of_times_still_draw(page):
    records = [made_runs.right(f"k{i}", 0.02 * 1.5**i) for i in range(45)][::-1]
    drawn = page(records)
    ticks = [e["text"] for e in drawn.all("text") if e.get("text-anchor") == "end"]
    assert "100 ms" in ticks
    assert len(drawn.all("circle", class_="record")) == 2 * 45 + 2 + 1


def test_the_page_is_replaced_whole(tmp_path):
    with made_runs.journal(tmp_path / "j") as journal:
        for _ in range(2):
            report.html(journal, tmp_path / "out" / "report.html")
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("time_us", "share"), [(10.03, 1.0), (20.06, 0.5)], ids=["on the roof", "half way"]
)
def test_roof_share_is_achieved_over_the_lower_ceiling(time_us, share):
    # 33.6 MB at 3350 GB/s take 10.03 µs: that kernel is on the memory roof
    roof = made_runs.right("a", time_us).analysis.roofline
    assert plots.roof_share(roof) == pytest.approx(share, rel=1e-3)
    compute = dict(roof, flops=66900.0 * time_us * 1e3 / 4, bytes=1.0)
    assert plots.roof_share(compute) == pytest.approx(0.25)


def test_scales_map_ends_to_ends_and_ticks_lie_within():
    for logarithmic in (False, True):
        scale = plots.Scale(0.5, 800.0, 10.0, 110.0, logarithmic)
        assert (scale(0.5), scale(800.0)) == pytest.approx((10.0, 110.0))
        assert all(0.5 <= t <= 800.0 for t in scale.ticks(6))
        assert 2 <= len(scale.ticks(6)) <= 7
