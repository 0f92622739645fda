"""Tables of codes: with one all ten PanEndoX tasks run on a dataset in ERS's layout; without it the atlas says so."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from ers_layout import MEANINGS, PATIENTS_PER_CODE, code_table, write_ers

from panendofm.atlas.__main__ import STAGE as ATLAS
from panendofm.atlas.datasets.codes import read_codes
from panendofm.atlas.datasets.mapping import load_mappings
from panendofm.atlas.taxonomy import load_taxonomy
from panendofm.linear_probe.__main__ import STAGE as PROBE
from panendofm.runtime.command_line import Stage, run_stage
from panendofm.runtime.errors import UserError

Run = Callable[..., tuple[int, str]]
TASKS = {
    "gi-tree", "barretts-grading", "uc-grading", "polyp-subtyping", "bbps", "esophagus-disease", "stomach-disease",
    "si-disease", "colon-disease", "stomach-landmark",
}  # fmt: skip


@pytest.fixture(scope="module")
def ers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "ers"
    write_ers(folder)
    return folder


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)

    def command(stage: Stage, *words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as stop:
            run_stage(stage, words)
        printed = capsys.readouterr()
        return int(stop.value.code or 0), printed.out + printed.err

    return command


def test_with_a_table_of_codes_all_ten_tasks_run(run: Run, ers: Path) -> None:
    Path("table.csv").write_text(code_table())
    code, printed = run(ATLAS, str(ers), "codes.ers=table.csv")
    assert code == 0, printed
    assert "codes have no meaning" not in printed and "unmapped labels: 0" in printed
    report = json.loads(Path("atlas.json").read_text())
    reached = {one["task"]: one for one in report["reach"]}
    stomach = reached["stomach-disease"]
    # Gastric and stomach cancer are one finding here.
    assert (stomach["in_paper"], stomach["classes"]) == (14, 14)
    assert stomach["reachable"] == stomach["with_images"] == stomach["evaluable"] == 11
    assert reached["uc-grading"]["evaluable"] == 4 and reached["barretts-grading"]["evaluable"] == 3

    small = ("seeds=1", "bootstrap.replicates=10", "grid.training.max_epochs=2")
    code, printed = run(PROBE, "pixels", "out=r", *small)
    assert code == 0, printed
    results = json.loads(Path("r/results.json").read_text())
    assert set(results["results"]) == TASKS and results["not_evaluable"] == {}
    assert results["tasks"]["stomach-disease"]["evaluable_classes"] == 11
    page = Path("r/index.html").read_text()
    assert "PanEndoFM (published)" in page and "0.648 (0.621–0.669)" in page

    # Exactly the paper's classes: synonyms are apart, Mayo ends at 2.
    code, printed = run(PROBE, "pixels", "tasks=published", "out=p", *small, "published_values=false")
    assert code == 0, printed
    tasks = json.loads(Path("p/results.json").read_text())["tasks"]
    assert set(tasks["uc-grading"]["per_class"]) == {"MAYO-0", "MAYO-1", "MAYO-2"}
    assert set(tasks["si-disease"]["per_class"]) == {"erosion-SI", "angiectasia-SI", "angiodysplasia-SI"}
    assert {"gastric-cancer", "stomach-cancer"} < set(tasks["stomach-disease"]["per_class"])
    assert set(tasks["esophagus-disease"]["per_class"]) == {"esophagitis", "barretts", "barretts-short-segment"}
    assert "(published)" not in Path("p/index.html").read_text()


def test_without_the_table_the_atlas_says_what_is_missing(run: Run, ers: Path) -> None:
    code, printed = run(ATLAS, str(ers))
    assert code == 0, printed
    known = sum(code in load_mappings()["ers"].labels for code in MEANINGS)
    missing = len(MEANINGS) - known
    assert 0 < known < missing
    line = next(line for line in printed.splitlines() if "have no meaning" in line)
    assert f"ers: {missing} of {len(MEANINGS)} codes ({missing * PATIENTS_PER_CODE} images)" in line
    assert "ers_codes.csv" in line and "panendofm atlas codes" in line
    assert f"ers: {missing} of {len(MEANINGS)} codes have no meaning" in Path("atlas.html").read_text()
    reached = {one["task"]: one for one in json.loads(Path("atlas.json").read_text())["reach"]}
    assert reached["stomach-disease"]["with_images"] == 0
    assert "gastric-ulcer" in reached["stomach-disease"]["nowhere"]
    assert "gastrovision" in reached["stomach-disease"]["adds"]


def test_a_template_lists_every_code_and_keeps_what_was_filled_in(run: Run, ers: Path) -> None:
    code, printed = run(ATLAS, "codes", str(ers), "out=tables")
    assert code == 0 and "without a meaning" in printed, printed
    path = Path("tables/ers_codes.csv")

    def rows() -> dict[str, dict[str, str]]:
        with path.open(newline="") as stream:
            return {row["code"]: row for row in csv.DictReader(stream)}

    assert set(rows()) == set(MEANINGS)
    assert {row["images"] for row in rows().values()} == {str(PATIENTS_PER_CODE)}
    assert rows()["c22"]["finding"] == "colon-polyp" and rows()["g01"]["finding"] == ""
    path.write_text(path.read_text().replace("g01,4,,,,", "g01,4,stomach,pathological-findings,gastric-ulcer,"))
    code, printed = run(ATLAS, "codes", str(ers), "out=tables")
    assert code == 0 and rows()["g01"]["finding"] == "gastric-ulcer" and rows()["g02"]["finding"] == ""
    code, printed = run(ATLAS, str(ers), "codes.ers=tables/ers_codes.csv")
    assert code == 0 and json.loads(Path("atlas.json").read_text())["levels"]["finding"]["gastric-ulcer"] == 4


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("g01,stomach,pathological-findings,gastric-ulcr,", "line 2: 'gastric-ulcr' is no finding of stomach; did you"),
        ("g01,stomach,normal-findings,gastric-ulcer,", "line 2: 'gastric-ulcer' is one of the pathological-findings"),
        ("g01,colon,pathological-findings,gastric-ulcer,", "line 2: 'gastric-ulcer' is not a finding of colon"),
        (",stomach,pathological-findings,gastric-ulcer,", "line 2: the code is empty"),
        ("g01,colon,pathological-findings,ulcerative-colitis,MAYO-9", "line 2: 'MAYO-9' is no grade of"),
    ],
)
def test_a_wrong_line_is_one_sentence(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "ers_codes.csv"
    path.write_text(f"code,region,category,finding,grade\n{line}\n")
    with pytest.raises(UserError, match=message) as error:
        read_codes(path, load_mappings()["ers"], load_taxonomy())
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_unknown_names_are_one_sentence(run: Run, ers: Path) -> None:
    code, printed = run(ATLAS, str(ers), "codes.esr=table.csv")
    assert code == 2 and "codes.esr: there is no such dataset" in printed
    code, printed = run(ATLAS, str(ers), "codes.ers=nowhere.csv")
    assert code == 2 and "codes.ers=nowhere.csv: there is no such file" in printed


def test_a_table_of_the_former_name_is_not_overlooked(tmp_path: Path, run: Run, ers: Path) -> None:
    case = tmp_path / "SUN" / "SUN-Positive" / "case1"
    case.mkdir(parents=True)
    (case / "a.jpg").write_bytes(b"")
    (tmp_path / "SUN" / "case_pathology.csv").write_text("case,pathology\ncase1,SSL\n")
    code, printed = run(ATLAS, str(tmp_path / "SUN"))
    assert code == 2 and "call this table sun_codes.csv and its columns code and label" in printed
