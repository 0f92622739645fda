"""`python -m eval_knn`: what it writes, what it says, and one sentence for every mistake."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from eval_knn import EvalConfig, SelectionConfig
from eval_knn.__main__ import STAGE
from panendofm.backbone import FeatureCache, ensure_torchvision
from panendofm.runtime.command_line import run_stage
from panendofm.runtime.config import load_config

REPOSITORY = Path(__file__).resolve().parents[2]

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(config: EvalConfig, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in this process and return its exit code, what it said and its error."""

    def run(*words: str | Path) -> tuple[int, str, str]:
        keys = [
            f"data.path={config.data.path}",
            f"cache={config.cache}",
            f"out={config.out}",
            "bootstrap.replicates=50",
        ]
        given = [str(word) for word in words]
        keys = [key for key in keys if not any(word.startswith(key.split("=")[0] + "=") for word in given)]
        with pytest.raises(SystemExit) as end:
            run_stage(STAGE, [*given, *keys])
        captured = capsys.readouterr()
        return int(end.value.code or 0), captured.out, captured.err

    return run


def test_several_networks_in_one_table(command: Run, weights_file: Path, config: EvalConfig) -> None:
    code, said, _ = command("pixels", weights_file)
    assert code == 0
    table = said[said.index("kNN on") :].splitlines()
    assert "pixels" in table[2] and weights_file.name in table[3]
    documents = {
        d["checkpoint"]: d for d in map(json.loads, (p.read_text() for p in Path(config.out or "").glob("*.json")))
    }
    pixels = documents["pixels"]
    assert f"{pixels['k']['20']['top1']:.4f}" in table[2] and f"{pixels['k']['20']['mcc']:.4f}" in table[2]
    assert pixels["k"]["20"]["top1"] > 0.4, "four classes that differ in their pixels"
    assert pixels["k"]["200"]["neighbors"] == pixels["data"]["gallery"] == 28
    assert len(pixels["k"]["20"]["rank_of_truth"]) == pixels["data"]["queries"] == 28
    assert np.sum(pixels["k"]["20"]["confusion"]) == 28
    assert "no leakage certificate" in documents["small"]["leakage"]["note"] and "leakage:" in said


def test_every_word_is_scored(command: Run, network_words: dict[str, str], config: EvalConfig) -> None:
    code, said, error = command(*network_words.values(), "ks=[10,20]")
    assert code == 0, error
    documents = [json.loads(path.read_text()) for path in Path(config.out or "").glob("*.json")]
    named = {name.removesuffix("-2") for name in network_words}
    assert {document["checkpoint"] for document in documents} == named
    assert said.count("not finite") == 0 and all(0 <= d["k"]["20"]["top1"] <= 1 for d in documents)


def test_second_run_computes_nothing(
    command: Run, weights_file: Path, config: EvalConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = f"cache={tmp_path / 'cache'}"
    assert command(weights_file, cache)[0] == 0
    first = json.loads(next(Path(config.out or "").glob("*.json")).read_text())

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the second run must answer from the cache")

    for name in (
        "panendofm.backbone.networks.extraction.extract_features",
        "panendofm.backbone.networks.dinov2.load_backbone",
    ):
        monkeypatch.setattr(name, refuse)
    code, said, _ = command(weights_file, cache)
    assert code == 0 and "from the cache" in said
    second = json.loads(next(Path(config.out or "").glob("*.json")).read_text())
    assert {**first, "evaluated": 0} == {**second, "evaluated": 0}


def test_second_run_of_a_timm_network_does_not_build_it(
    command: Run, config: EvalConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure_torchvision()
    import timm

    file = tmp_path / "w.safetensors"
    save_file(timm.create_model("resnet10t").state_dict(), file)
    assert command(f"timm:resnet10t@{file}", "bootstrap.confidence=0.8")[0] == 0
    monkeypatch.setattr(
        "panendofm.backbone.networks.timm_models.values_checksum", lambda *_: pytest.fail("it was built again")
    )
    code, said, _ = command(f"timm:resnet10t@{file}", "bootstrap.confidence=0.8")
    assert code == 0 and "from the cache" in said and "80% interval" in said
    document = json.loads(next(Path(config.out or "").glob("*.json")).read_text())
    assert document["architecture"] == "resnet10t" and "is a baseline" in document["leakage"]["note"]


def test_other_weights_under_the_same_name_are_not_taken_from_the_cache(
    command: Run, small_network: torch.nn.Module, config: EvalConfig, tmp_path: Path
) -> None:
    file, shown = tmp_path / "w.pt", []
    for seed in (1, 2):
        torch.manual_seed(seed)
        torch.save({k: torch.randn_like(v) * 0.1 for k, v in small_network.state_dict().items()}, file)
        assert command(file)[0] == 0
        shown = [json.loads(p.read_text())["rankme"] for p in Path(config.out or "").glob("*.json")]
    assert len(set(shown)) == 2


def test_plots(command: Run, weights_file: Path, config: EvalConfig) -> None:
    code, said, _ = command(weights_file, "plots=true")
    assert code == 0 and "plots:" in said
    folder = Path(config.out or "") / "knn_small_images"
    for name in ("confusion.png", "map.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    page = (folder / "gallery.html").read_text()
    document = json.loads(next(Path(config.out or "").glob("*.json")).read_text())
    right = round(document["k"]["20"]["top1"] * 28)
    assert f"of {28 - right}</h2>" in page and f"of {right}</h2>" in page
    assert page.count('class="query"') == min(28 - right, 24) + min(right, 12)
    assert "http" not in page, "the page needs no network"
    note = document["leakage"]["note"]
    assert note.startswith("the weights carry") and f"The{note[3:]}" in page


def test_collapsed_network_is_scored_and_drawn(
    command: Run, small_network: torch.nn.Module, config: EvalConfig, tmp_path: Path
) -> None:
    """All features alike: the figures are those of a constant answer, and nothing breaks."""
    state = {key: torch.zeros_like(value) for key, value in small_network.state_dict().items()}
    state["norm.bias"] = torch.ones_like(state["norm.bias"])
    torch.save(state, tmp_path / "collapsed.pt")
    assert command(tmp_path / "collapsed.pt", "plots=true")[0] == 0
    document = json.loads(next(Path(config.out or "").glob("*.json")).read_text())
    assert document["k"]["20"]["top1"] == 0.25 and document["k"]["20"]["mcc"] == 0
    assert document["rankme"] == pytest.approx(1, abs=1e-3) and document["alpha_req"] is None


def test_features_that_are_not_finite(command: Run, small_network: torch.nn.Module, tmp_path: Path) -> None:
    state = {key: value.clone() for key, value in small_network.state_dict().items()}
    state["norm.bias"][0] = torch.nan
    torch.save(state, tmp_path / "broken.pt")
    code, _, error = command(tmp_path / "broken.pt")
    assert code == 2 and "broken" in error and "not finite" in error


def half_written(tmp_path: Path, name: str) -> Path:
    folder = tmp_path / "run" / "checkpoints" / name
    folder.mkdir(parents=True)
    (folder / "__0_0.distcp").write_bytes(b"part")
    return folder


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("absent", "absent.pt does not exist"),
        ("text", "text.pt"),
        ("truncated", "truncated.pt"),
        ("temporary name", "is not finished"),
        ("no description", "is not finished"),
        ("run without checkpoints", "no finished checkpoint"),
        ("timm", "timm has no model 'vit_gigantic'"),
        ("nothing", "NETWORK is missing"),
        ("watch and name", "leave out"),
        ("device", "torch sees no GPU"),
        ("no device", "features.device: 'gpu' is no device"),
        ("timm file", "absent.safetensors does not exist"),
        ("metric", "'top9_k20' is not a metric"),
        ("k of metric", "50 is not among ks"),
    ],
)
def test_one_sentence_and_exit_code_2(case: str, words: str, command: Run, weights_file: Path, tmp_path: Path) -> None:
    if case == "device" and torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    (tmp_path / "text.pt").write_text("no weights")
    (tmp_path / "truncated.pt").write_bytes(weights_file.read_bytes()[:3000])
    arguments: dict[str, list[str | Path]] = {
        "absent": [tmp_path / "absent.pt"],
        "text": [tmp_path / "text.pt"],
        "truncated": [tmp_path / "truncated.pt"],
        "temporary name": [half_written(tmp_path, ".step_0000005.partial-1")],
        "no description": [half_written(tmp_path, "step_0000005")],
        "run without checkpoints": [half_written(tmp_path, "step_0000006").parents[1]],
        "timm": ["timm:vit_gigantic"],
        "nothing": [],
        "watch and name": ["pixels", tmp_path, "watch=true"],
        "device": [weights_file, f"cache={tmp_path / 'fresh'}", "features.device=cuda"],
        "no device": [weights_file, f"cache={tmp_path / 'fresh'}", "features.device=gpu"],
        "timm file": [f"timm:resnet10t@{tmp_path / 'absent.safetensors'}"],
        "metric": ["pixels", "selection.metric=top9_k20"],
        "k of metric": ["pixels", "selection.metric=top1_k50"],
    }
    code, _, error = command(*arguments[case])
    words = words.replace("absent.pt does", f"{tmp_path / 'absent.pt'}: it does")
    assert code == 2 and words in error
    assert error.startswith("error: ") and error.count("\n") == 1


@pytest.mark.parametrize("case", ["no classes", "one class", "absent"])
def test_sets_that_can_not_be_used(case: str, command: Run, labeled_folder: Path, tmp_path: Path) -> None:
    root = tmp_path / "set"
    if case != "absent":
        root.mkdir()
    if case == "one class":
        shutil.copytree(labeled_folder / "polyp", root / "polyp")
    code, _, error = command("pixels", f"data.path={root}")
    assert code == 2 and str(root) in error and error.count("\n") == 1


def test_splits_are_no_classes_and_deeper_folders_are_named(command: Run, labeled_folder: Path, tmp_path: Path) -> None:
    for name in ("train", "val"):
        shutil.copytree(labeled_folder, tmp_path / "split" / name)
    code, _, error = command("pixels", f"data.path={tmp_path / 'split'}")
    assert code == 2 and "parts of a split and not classes" in error and "split/train" in error
    classes = sorted(path.name for path in labeled_folder.iterdir())
    for number, name in enumerate(classes):
        tract = ("upper-gi-tract", "lower-gi-tract")[number % 2]
        shutil.copytree(labeled_folder / name, tmp_path / "tracts" / tract / "findings" / name)
    code, said, _ = command("pixels", f"data.path={tmp_path / 'tracts'}")
    assert code == 0 and "taken from its own folders (lower-gi-tract, upper-gi-tract)" in said and classes[0] in said


def test_corrupt_image_and_empty_class_are_counted_skips(
    command: Run, labeled_folder: Path, config: EvalConfig, tmp_path: Path
) -> None:
    root = Path(shutil.copytree(labeled_folder, tmp_path / "set"))
    (root / "dyed" / "00.png").write_bytes(b"\x89PNG broken")
    (root / "vessel").mkdir()
    code, said, _ = command("pixels", f"data.path={root}")
    assert code == 0 and "1 of 56 images" in said and "dyed/00.png" in said and "the class 'vessel'" in said
    data = json.loads(next(Path(config.out or "").glob("*.json")).read_text())["data"]
    assert data["unreadable"] == 1 and data["gallery"] + data["queries"] == 55 and len(data["classes"]) == 4


def test_damaged_cache_is_replaced(command: Run, config: EvalConfig, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert command("pixels", f"cache={cache}")[0] == 0
    entry = next(FeatureCache(cache / "features").folder.glob("*.npy"))
    entry.write_bytes(entry.read_bytes()[:100])
    code, said, _ = command("pixels", f"cache={cache}")
    assert code == 0 and "computed anew" in said


@pytest.mark.parametrize("path", sorted((REPOSITORY / "configs" / "eval").glob("*.yaml")), ids=lambda path: path.stem)
def test_configs_load(path: Path) -> None:
    loaded = load_config(EvalConfig, path)
    published = SelectionConfig(metric="top5_k100", equal_within=0.0, tie_breaks=["top1_k20", "rankme"])
    assert loaded.selection == (published if path.stem == "kvasir_published" else SelectionConfig())
