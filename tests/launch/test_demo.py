"""Demo and tour give their stages keys that they have. `make demo` and `make tour` run the real steps."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from data_pipeline.config import PipelineConfig
from eval_knn import EvalConfig
from launch.demo_steps import demo_parts, tour_parts
from launch.pages import write_pages
from launch.steps import Lanes, Step
from panendofm.linear_probe.dense.config import DenseConfig
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from panendofm.vqa.bench.config import BuildConfig
from panendofm.vqa.score.config import EncoderConfig
from pretrain import PretrainConfig


@pytest.mark.parametrize(
    ("stage", "schema"),
    [
        ("shard", PipelineConfig),
        ("pretrain", PretrainConfig),
        ("eval_knn", EvalConfig),
        ("dense", DenseConfig),
        ("build", BuildConfig),
        ("encoder", EncoderConfig),
    ],
)
def test_the_demo_gives_its_stages_keys_that_they_have(
    stage: str, schema: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [step for part in tour_parts(tmp_path) for lane in part for step in lane if stage in step.words]
    assert len(steps) == 1
    words = steps[0].words
    files = [word for word in words if word.endswith(".yaml")]
    overrides = [word for word in words if "=" in word and not word.startswith("--")]
    assert overrides
    load_config(schema, files[0] if files else None, overrides)


@pytest.mark.parametrize(("parts_of", "fewest_uses"), [(demo_parts, 10), (tour_parts, 30)])
def test_no_step_reads_what_another_beside_or_after_it_makes(
    parts_of: Callable[[Path], list[Lanes]], fewest_uses: int, tmp_path: Path
) -> None:
    """Lanes of a part run at once, so a step may only use what earlier parts, or its own lane before it, have left."""
    places = {
        step: (part, lane, number)
        for part, lanes in enumerate(parts_of(tmp_path))
        for lane, steps in enumerate(lanes)
        for number, step in enumerate(steps)
    }
    uses = 0
    for step, (part, lane, number) in places.items():
        for path in re.findall(re.escape(str(tmp_path)) + r"[^\s,\]]*", " ".join(step.words)):
            maker = maker_of(Path(path), list(places), tmp_path)
            if maker is None or maker is step:
                continue
            uses += 1
            made = places[maker]
            assert made[0] < part or (made[:2] == (part, lane) and made[2] < number), (step.title, maker.title)
    assert uses >= fewest_uses


def maker_of(path: Path, steps: list[Step], folder: Path) -> Step | None:
    """Whose result, or the folder that its result is the page of, holds the path most closely; of several the first."""
    homes = [
        (home, step)
        for step in steps
        for home in (step.result, *([step.result.parent] if step.result.suffix == ".html" else []))
        if home != folder and path.is_relative_to(home)
    ]
    return max(homes, key=lambda home: len(home[0].parts), default=(None, None))[1]


def test_one_page_leads_to_all_others(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no pages yet"):
        write_pages(tmp_path)
    for name, title in (("run/report.html", "a &lt;run&gt;"), ("b c/index.html", "probe")):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"<html><head><title>{title}</title></head></html>")
    for _ in range(2):  # it does not link to itself
        text = write_pages(tmp_path).read_text(encoding="utf-8")
        assert re.findall(r'<a href="([^"]*)">([^<]*)</a>', text) == [
            ("b%20c/index.html", "probe"),
            ("run/report.html", "a &lt;run&gt;"),
        ]
