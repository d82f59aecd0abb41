"""The pytest plug-in: check every launch of a test on the virtual GPU, and fail the test on an error.

    pytest --warpsmith-sanitize              every test, all checks
    pytest --warpsmith-checks=races,leaks    every test, some checks

    @pytest.mark.warpsmith_sanitize          this test; (checks="races", schedule="random", seed=1)
    def test_it(warpsmith_sanitizer): ...    this test, and `warpsmith_sanitizer.findings` to look at

Nothing of warpsmith loads in a session that uses none of the three.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

MARKER = "warpsmith_sanitize"
_WARNED: pytest.StashKey[list[tuple[str, str]]] = pytest.StashKey()
_USED = ("checks", "schedule", "seed", "strict")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("warpsmith")
    group.addoption(
        "--warpsmith-sanitize",
        action="store_true",
        help="run every launch on the virtual GPU under warpsmith's sanitizer; errors fail the test",
    )
    group.addoption(  # of its own: an optional value would swallow the path that follows the flag
        "--warpsmith-checks",
        metavar="NAMES",
        help="the same with these checks alone, such as races,uninitialized",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARKER}(checks='all', schedule='default', seed=0, strict=False): check this test's launches "
        "on the virtual GPU; strict: warnings fail it too",
    )
    config.stash[_WARNED] = []
    if config.getoption("--warpsmith-checks") is not None:
        _chosen(config.getoption("--warpsmith-checks"))


@pytest.fixture
def warpsmith_sanitizer(request: pytest.FixtureRequest) -> Any:
    """The session whose `findings` fill while the test runs; clear them to accept them."""
    return request.node.stash[_SESSION]


_SESSION: pytest.StashKey[Any] = pytest.StashKey()


def _wanted(item: pytest.Item) -> dict[str, Any] | None:
    """What to check in this test; None for nothing."""
    marker = item.get_closest_marker(MARKER)
    names = item.config.getoption("--warpsmith-checks")
    option = names or ("all" if item.config.getoption("--warpsmith-sanitize") else None)
    fixture = "warpsmith_sanitizer" in getattr(item, "fixturenames", ())
    if marker is None and option is None and not fixture:
        return None
    given = dict(marker.kwargs) if marker is not None else {}
    if marker is not None and marker.args:
        given["checks"] = marker.args[0]
    unknown = set(given) - set(_USED)
    if unknown:
        raise pytest.UsageError(
            f"@pytest.mark.{MARKER} has no argument {', '.join(sorted(unknown))}: expected {', '.join(_USED)}"
        )
    return {"checks": option or "all"} | given


def _chosen(checks: Any) -> Any:
    from .errors import UnknownName
    from .sanitizer import chosen_checks

    try:
        return chosen_checks(checks)
    except UnknownName as error:
        raise pytest.UsageError(str(error)) from None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    wanted = _wanted(item)
    if wanted is None:
        return (yield)
    from .devices.observe import observe

    options = {n: wanted[n] for n in ("schedule", "seed") if n in wanted}
    with observe(count=False, checks=_chosen(wanted["checks"]), **options) as session:
        item.stash[_SESSION] = session
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test that passed although the sanitizer found an error in its launches."""
    __tracebackhide__ = True
    result = yield
    session = item.stash.get(_SESSION, None)
    if session is None:
        return result
    report = _report(item, session)
    strict = bool((_wanted(item) or {}).get("strict"))
    if report.errors or (strict and report.warnings):
        pytest.fail(f"warpsmith's sanitizer found\n\n{report}", pytrace=False)
    item.config.stash[_WARNED] += [
        (item.nodeid, f.kind + " at " + f.source) for f in report.warnings
    ]
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Show the report beside the KernelFault that ended a test."""
    made = yield
    session = item.stash.get(_SESSION, None)
    if session is not None and call.when == "call" and made.failed and session.findings:
        made.sections.append(("warpsmith sanitizer", str(_report(item, session))))
    return made


def _report(item: pytest.Item, session: Any) -> Any:
    from .sanitizer import SanitizeReport, merged, sources_of

    findings = merged(session.findings)
    sources = sources_of(session.sources, findings)
    order = (session.options.get("schedule", "default"),)
    return SanitizeReport(item.name, findings, len(session.launches), order, sources=sources)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    warned = config.stash.get(_WARNED, [])
    if warned:
        terminalreporter.section("warpsmith sanitizer warnings")
        for test, said in warned:
            terminalreporter.line(f"{test}: {said}")
