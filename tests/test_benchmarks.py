"""`python -m benchmarks`: every benchmark gives figures, goals are judged, runs are kept, and the page says it all."""

from __future__ import annotations

import ast
import sys
from dataclasses import replace
from inspect import signature
from pathlib import Path
from types import ModuleType

import pytest

import benchmarks.__main__ as command
from benchmarks.catalog import CATALOG
from benchmarks.figures import Figure, NotMeasured
from benchmarks.page import newest_as_markdown, quoted, render, shown_value
from benchmarks.record import History, Machine, Result, Run, read_history, write_history
from benchmarks.step import PlainObjective
from panendofm.runtime.errors import UserError
from pretrain.objective.dinov2 import DinoObjective

FOLDER = Path(command.__file__).parent
FAST = Figure("times as fast", 1.2, "×", "a <peer>", 1.0, "higher")
SLOW = Figure("a unit", 3.4, "×", "decoding", 1.6)


def run_of(*results: Result, commit: str = "abc") -> Run:
    machine = Machine("a processor", "AVX2", 2, "3.11", "2.9", 0.5)
    return Run("2026-11-19 23:00", commit, machine, "small", results)


def test_every_benchmark_of_the_catalog_gives_figures() -> None:
    for name in CATALOG:
        tree = ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert "figures" in functions, name
        assert [argument.arg for argument in functions["figures"].args.args] == ["size"], name


@pytest.mark.parametrize(
    ("value", "better", "met"),
    [(1.0, "lower", True), (1.1, "lower", False), (1.0, "higher", True), (0.9, "higher", False)],
)
def test_goals(value: float, better: str, met: bool) -> None:
    figure = Figure("f", value, "s", "x", 1.0, better)  # type: ignore[arg-type]
    assert figure.met is met
    assert replace(figure, goal=None).met is None


def test_values_are_shown_with_three_digits() -> None:
    assert [shown_value(v, "s") for v in (1234.5, 12.34, 1.234, 0.01234)] == ["1,234 s", "12.3 s", "1.23 s", "0.0123 s"]
    assert shown_value(0.812, "share") == "81.2%" and shown_value(1.62, "×") == "1.62×"


def test_runs_are_kept_and_read_again(tmp_path: Path) -> None:
    history = History((run_of(Result("knn", (FAST, SLOW), 1.0, 2.0)), run_of(Result("peer", (), 0.0, 0.0, "absent"))))
    write_history(tmp_path / "benchmarks.json", history)
    assert read_history(tmp_path / "benchmarks.json") == history
    (tmp_path / "benchmarks.json").write_text('{"runs": 3}')
    with pytest.raises(UserError, match="a record of benchmarks"):
        read_history(tmp_path / "benchmarks.json")
    assert read_history(tmp_path / "nothing.json") == History()


def test_the_page_marks_what_falls_short_and_tells_the_history() -> None:
    first = run_of(Result("knn", (replace(FAST, value=0.7), SLOW), 5.0, 9.0), commit="first")
    second = run_of(Result("knn", (FAST,), 5.0, 9.0), Result("peer", (), 0.0, 0.0, "no <peer> here"), commit="second")
    page = render(History((first, second)))
    assert "1 of 2 figures reach their goal" in page
    assert page.count('class="marked"') == 1
    marked = page[page.index('class="marked"') :]
    assert marked.index("a unit") < marked.index("</tr>")
    assert "a &lt;peer&gt;" in page and "no &lt;peer&gt; here" in page and "<peer>" not in page
    assert page.count("<details>") == 1 and "value: 0.7 at 1" in page and "value: 1.2 at 2" in page
    table = newest_as_markdown(History((first, second)))
    assert "| knn: times as fast | 1.20× | ≥ 1.00× | yes | a <peer> | second | 2026-11-19 |" in table
    assert "| knn: a unit | 3.40× | ≤ 1.60× | no | decoding | first | 2026-11-19 |" in table


def test_full_sizes_have_their_own_rows() -> None:
    small = run_of(Result("knn", (FAST,), 1.0, 1.0))
    full = replace(run_of(Result("knn", (SLOW, FAST), 1.0, 1.0)), size="full")
    table = newest_as_markdown(History((small, full)))
    assert "knn: times as fast |" in table and "knn: times as fast (full size) |" in table


def test_the_command_runs_a_benchmark_in_a_process_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for names in (["tests"], ["order", "tests"]):
        assert command.main([*names, "--out", str(tmp_path)]) == 0
    runs = read_history(tmp_path / "benchmarks.json").runs
    assert len(runs) == 2
    order, tests = runs[1].results
    assert order.benchmark == "order" and len(order.figures) == 4 and order.cpu_seconds > 0
    assert tests.figures == () and "--size full" in tests.not_measured
    assert (tmp_path / "benchmarks.html").read_text(encoding="utf-8") == render(History(runs))
    assert "tests: not measured: " in capsys.readouterr().out


def test_the_documentation_quotes_the_record() -> None:
    text = command.DOCUMENTATION.read_text(encoding="utf-8")
    assert quoted(text, read_history(command.RESULTS / command.RECORD)) == text
    assert quoted(text, History((run_of(Result("knn", (FAST,), 1.0, 1.0)),))) != text


def test_the_plain_step_replaces_methods_that_are_there() -> None:
    """One that was renamed in the objective would be replaced no more, and the plain way would be ours."""
    methods = [name for name, value in vars(PlainObjective).items() if callable(value)]
    assert len(methods) == 3
    for name in methods:
        assert signature(getattr(PlainObjective, name)) == signature(getattr(DinoObjective, name)), name


def test_an_unknown_name_is_one_sentence() -> None:
    with pytest.raises(UserError, match=r"unknown benchmark 'stepp': did you mean 'step'\?"):
        command.main(["stepp"])


def test_what_a_machine_lacks_is_told_and_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from benchmarks import one
    from benchmarks.figures import Answer
    from panendofm.records.documents import read_document

    def figures(size: str) -> list[Figure]:
        raise NotMeasured("no peer here")

    module = ModuleType("benchmarks.absent")
    module.figures = figures  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "benchmarks.absent", module)
    one.main("absent", "small", tmp_path / "answer.json")
    assert read_document(Answer, tmp_path / "answer.json", "figures") == Answer((), "no peer here")
