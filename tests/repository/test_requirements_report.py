"""`pytest --requirements` fails on a clause without a passing test and on a mark that names no clause.

Each case is a small tree of tests with a table of its own, run in this process.
"""

import textwrap
from collections.abc import Callable

import pytest

from support.requirements import plugin
from support.requirements.table import Clause, Gap, Row

pytest_plugins = ["pytester"]

CONFTEST = """
    import pytest
    from support.requirements.plugin import RequirementTable

    def pytest_addoption(parser):
        parser.addoption("--requirements", action="store_true")
        parser.addoption("--clause", action="append", default=[])

    def pytest_configure(config):
        config.addinivalue_line("markers", "req")
        config.addinivalue_line("markers", "level")
        config.pluginmanager.register(RequirementTable(config.rootpath))
"""
PROVED = "def test_it(): pass"
FAILED = "def test_it(): assert False"
SKIPPED = "def test_it(): pytest.skip()"
WITHOUT_KUBERNETES = f"def test_it(): pytest.skip({plugin.WITHOUT_BINARIES + 'etcd'!r})"
EXPECTED_TO_FAIL = "def test_it(): pytest.xfail()"

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs tests by file with the one row X1, whose clauses have these levels."""

    def run_tests(
        files: dict[str, str], clauses: dict[str, str], *options: str, gaps: dict[str, str] | None = None
    ) -> pytest.RunResult:
        known = {f"X1.{name}": Clause(f"X1.{name}", levels, "It is so.") for name, levels in clauses.items()}
        monkeypatch.setattr(plugin, "CLAUSES", known)
        monkeypatch.setattr(plugin, "ROWS", (Row("X1", "a row", tuple(known.values())),))
        monkeypatch.setattr(plugin, "GAPS", {name: Gap(levels, "not yet") for name, levels in (gaps or {}).items()})
        for path, text in {"conftest.py": CONFTEST, **files}.items():
            target = pytester.path / "tests" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text("import pytest\n" + textwrap.dedent(text))
        pytester.makeini("[pytest]")
        return pytester.runpytest_inprocess(
            "-p", "no:cacheprovider", "-p", "no:asyncio", *(options or ("--requirements",))
        )

    return run_tests


def marked(test: str, *clauses: str) -> str:
    return "".join(f'@pytest.mark.req("{clause}")\n' for clause in clauses) + test


@pytest.mark.parametrize(
    ("files", "clauses", "gaps", "complaint"),
    [
        pytest.param({"test_a.py": marked(PROVED, "X1.a")}, {"a": "u"}, {}, "", id="a passing test"),
        pytest.param({"test_a.py": PROVED}, {"a": "u"}, {}, "X1.a has no passing test at level u", id="no test"),
        pytest.param(
            {"test_a.py": marked(FAILED, "X1.a")}, {"a": "u"}, {}, "X1.a has no passing test at level u", id="it fails"
        ),
        pytest.param(
            {"test_a.py": marked(PROVED, "X1.a"), "test_b.py": marked(FAILED, "X1.a")},
            {"a": "u"},
            {},
            "X1.a has no passing test at level u",
            id="one passes, another fails",
        ),
        pytest.param(
            {"test_a.py": marked(SKIPPED, "X1.a")}, {"a": "u"}, {}, "X1.a has no passing test at level u", id="skipped"
        ),
        pytest.param(
            {"test_a.py": marked(PROVED, "X1.a")},
            {"a": "ue"},
            {},
            "X1.a has no passing test at level e",
            id="a level is missing",
        ),
        pytest.param(
            {"test_a.py": marked(PROVED, "X1.a"), "e2e/test_a_too.py": marked(PROVED, "X1.a")},
            {"a": "ue"},
            {},
            "",
            id="the folder is the level",
        ),
        pytest.param(
            {"test_a.py": '@pytest.mark.level("s")\n' + marked(PROVED, "X1.a")}, {"a": "s"}, {}, "", id="a level mark"
        ),
        pytest.param(
            {"test_a.py": marked(EXPECTED_TO_FAIL, "X1.a")},
            {"a": "u"},
            {},
            "X1.a has no passing test at level u",
            id="expected to fail",
        ),
        pytest.param(
            {"test_a.py": marked(WITHOUT_KUBERNETES, "X1.a")},
            {"a": "u"},
            {},
            "X1.a has no passing test at level u",
            id="another level needs no Kubernetes",
        ),
        pytest.param(
            {"conformance/test_a.py": marked(WITHOUT_KUBERNETES, "X1.a")},
            {"a": "k"},
            {},
            "",
            id="skipped without Kubernetes",
        ),
        pytest.param(
            {"conformance/test_a.py": marked(SKIPPED, "X1.a")},
            {"a": "k"},
            {},
            "X1.a has no passing test at level k",
            id="skipped on Kubernetes",
        ),
        pytest.param(
            {"conformance/test_a.py": marked(EXPECTED_TO_FAIL, "X1.a")},
            {"a": "k"},
            {},
            "X1.a has no passing test at level k",
            id="expected to fail on Kubernetes",
        ),
        pytest.param(
            {"conformance/test_a.py": marked(FAILED, "X1.a")},
            {"a": "k"},
            {},
            "X1.a has no passing test at level k",
            id="fails on Kubernetes",
        ),
        pytest.param({"test_a.py": PROVED}, {"a": "u"}, {"X1.a": "u"}, "", id="a known gap"),
        pytest.param(
            {"test_a.py": marked(PROVED, "X1.a")},
            {"a": "u"},
            {"X1.a": "u"},
            "X1.a has a test at level u: remove it from gaps.toml",
            id="a gap that is closed",
        ),
    ],
)
def test_report(run: Run, files: dict[str, str], clauses: dict[str, str], gaps: dict[str, str], complaint: str) -> None:
    done = run(files, clauses, gaps=gaps)
    said = [line for line in done.outlines if line.startswith("requirements: X1")]
    if complaint:
        assert done.ret == pytest.ExitCode.TESTS_FAILED
        assert [line.partition(": It is so.")[0] for line in said] == [f"requirements: {complaint}"]
    else:
        assert said == []
        assert done.ret == pytest.ExitCode.OK


@pytest.mark.parametrize("option", ["--requirements", "--collect-only", "-q"])
def test_mark_that_names_no_clause_is_an_error(run: Run, option: str) -> None:
    done = run({"test_a.py": marked(PROVED, "X1.a", "X1.b")}, {"a": "u", "c": "u"}, option)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert any(
        "there is no clause 'X1.b'; of this row: X1.a, X1.c" in line for line in (*done.outlines, *done.errlines)
    )


def test_without_the_option_nothing_but_the_tests_decides(run: Run) -> None:
    done = run({"test_a.py": marked(PROVED, "X1.a")}, {"a": "u", "b": "u"}, "-v")
    assert done.ret == pytest.ExitCode.OK
    assert any("requirements: 1 of 2 clauses of 1 rows proved" in line for line in done.outlines)


@pytest.mark.parametrize(("files", "code"), [({"test_a.py": marked(FAILED, "X1.a")}, 0), ({"test_a.py": PROVED}, 1)])
def test_collection_checks_marks_alone(run: Run, files: dict[str, str], code: int) -> None:
    done = run(files, {"a": "u"}, "--requirements", "--collect-only", "-q")
    assert done.ret == code


def test_tests_of_one_clause_are_selected(run: Run) -> None:
    text = f"{marked(PROVED, 'X1.a')}\n{marked(PROVED, 'X1.b').replace('test_it', 'test_other')}"
    done = run({"test_a.py": text}, {"a": "u", "b": "u"}, "--clause=X1.b")
    done.assert_outcomes(passed=1, deselected=1)
