"""Published rows: they agree with themselves where the paper does, and misprints are marked."""

from __future__ import annotations

from statistics import mean, stdev

import pytest

from panendofm.runtime.errors import UserError
from panendofm.vqa.benchmark import find_benchmark
from panendofm.vqa.score.published import PublishedRow, PublishedTable, published_views

ENDOBENCH = {table.source: table for table in find_benchmark("endobench").published.tables}
GI_BENCH = {table.title: table for table in find_benchmark("gi_bench").published.tables}
GROUPS = {"junior endoscopists (3)": "Junior", "residency trainees (3)": "Trainee"}
TYPES = {"LC": 808, "PT": 250, "SP": 350, "SS": 388, "SA": 361, "TI": 305, "IC": 199, "IP": 98}
TYPES |= {"RR_box": 433, "RR_contour": 182, "RR_multi": 263, "RR_coordinate": 433}
TASKS = {"LT": ("LC", "PT"), "MP": ("SP", "SS"), "MO": ("SA", "TI"), "IM": ("IC", "IP")}
TASKS |= {"RR": ("RR_box", "RR_contour", "RR_multi", "RR_coordinate")}


def by_name(table: PublishedTable) -> dict[str, dict[str, float | None]]:
    return {row.name: dict(zip(table.columns, row.values, strict=True)) for row in table.rows}


def row_of(table: PublishedTable, name: str) -> PublishedRow:
    return next(row for row in table.rows if row.name == name)


def test_question_types_add_up_to_tasks() -> None:
    """Table 5 weighted by the numbers of questions gives Table 2."""
    types, tasks = by_name(ENDOBENCH["Table 5"]), by_name(ENDOBENCH["Table 2"])
    checked = 0
    for model in ("Llava-v1.5-13B", "Gemini-2.5-Pro", "ColonGPT"):
        for task, parts in TASKS.items():
            values = [types[model][part] for part in parts]
            if None in values:
                continue
            total = sum(TYPES[part] for part in parts)
            expected = sum((value or 0) * TYPES[part] for part, value in zip(parts, values, strict=True)) / total
            assert tasks[model][task] == pytest.approx(expected, abs=0.02), (model, task)
            checked += 1
    assert checked >= 12


def test_kinds_of_prompt_are_the_same_in_two_tables() -> None:
    scenes, types = by_name(ENDOBENCH["Table 3"]), by_name(ENDOBENCH["Table 5"])
    names = {"box": "RR_box", "contour": "RR_contour", "multi": "RR_multi", "coordinate": "RR_coordinate"}
    for model, own in types.items():
        for prompt, code in names.items():
            known = (scenes[model][prompt] if model in scenes else None, own[code])
            if None not in known:
                assert known[0] == known[1], (model, prompt)
    copied = row_of(ENDOBENCH["Table 3"], "Qwen2.5VL-7B-Instruct")
    assert {"average", "box", "contour", "multi", "coordinate"} <= set(copied.doubtful)
    llava = types["Llava-v1.5-7B"]
    assert copied.values[6:] == [llava[code] for code in names.values()]


def test_chain_of_thought_rows() -> None:
    rows = by_name(ENDOBENCH["Table 6"])
    tasks = by_name(ENDOBENCH["Table 2"])
    assert len(rows) == 5 and rows["Gemini-2.5-Pro"]["chain of thought"] == 61.67
    for name in ("GPT-4o", "Gemini-2.5-Pro", "HuatuoGPT-Vision-34B"):
        assert rows[name]["direct"] == tasks[name]["micro"]


@pytest.mark.parametrize("title", ["Q4 findings by dimension, 60 images", "Q5 advice by dimension, 60 images"])
def test_totals_are_means_and_groups_are_means_of_readers(title: str) -> None:
    table = GI_BENCH[title]
    assert len(table.rows) == 20
    for row in table.rows:
        values = [value or 0.0 for value in row.values]
        assert values[5] == pytest.approx(mean(values[:5]), abs=0.0016), row.name
    for group, reader in GROUPS.items():
        own = row_of(table, group)
        readers = [row_of(table, f"{reader} {number}") for number in (1, 2, 3)]
        for column in range(6):
            values = [row.values[column] or 0.0 for row in readers]
            assert own.values[column] == pytest.approx(mean(values), abs=0.0016)
            assert own.sd[column] == pytest.approx(stdev(values), abs=0.0016)


def test_readers_are_permuted_between_tables() -> None:
    """What the errata say: the same totals, in another order."""
    single = by_name(GI_BENCH["single readers, 60 images"])
    for title, column in (
        ("Q4 findings by dimension, 60 images", "q4_mean"),
        ("Q5 advice by dimension, 60 images", "q5_mean"),
    ):
        totals = by_name(GI_BENCH[title])
        for reader in GROUPS.values():
            names = [f"{reader} {number}" for number in (1, 2, 3)]
            there, here = [single[name][column] for name in names], [totals[name]["total"] for name in names]
            assert there != here and sorted(map(str, there)) == sorted(map(str, here))


def test_misprints_are_marked_on_the_page() -> None:
    views = {view.title: view for view in published_views(find_benchmark("gi_bench").published)}
    full = views["full set, 947 images (Table 2 and leaderboard)"]
    gemini = next(row for row in full.table.rows if row[0] == "gemini-2.5-pro")
    assert "2.869 ?" in gemini and "2.663 ± 0.909" in gemini
    assert any("0.018" in note for note in full.notes)
    findings = views["Q4 findings by dimension, 60 images (Table 4)"]
    gpt = next(row for row in findings.table.rows if row[0] == "gpt-4o")
    assert gpt[1] == "4.283 ± 0.640*†"
    assert any(row[1] == "0.912 ?" for row in views["judge against experts (Table A1)"].table.rows)


def test_rows_that_do_not_fit_are_refused() -> None:
    short = PublishedTable("t", ["a", "b"], [PublishedRow("model", [1.0])])
    with pytest.raises(UserError, match="the row model does not fit"):
        short.refuse_gaps("rows.yaml")
