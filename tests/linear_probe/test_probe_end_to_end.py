"""The commands as users type them, on small images: atlas, probe, tables, predictions, and plausible mistakes."""

from __future__ import annotations

import csv
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from panendofm.atlas.__main__ import STAGE as ATLAS
from panendofm.backbone import FeatureKind
from panendofm.backbone.networks import find_network
from panendofm.linear_probe.__main__ import STAGE as PROBE
from panendofm.linear_probe.config import HeadConfig
from panendofm.linear_probe.features import Columns, of_one_block
from panendofm.linear_probe.heads.head_file import load_head
from panendofm.linear_probe.heads.head_run import open_head
from panendofm.linear_probe.inference.evidence import patch_evidence
from panendofm.runtime.command_line import run_stage
from panendofm.runtime.config import load_config
from panendofm.runtime.yaml_files import read_yaml

Run = Callable[..., tuple[int, str]]
REPOSITORY = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`panendofm probe WORDS…` or `panendofm atlas WORDS…` in a folder of its own: exit code, and what it printed."""
    monkeypatch.chdir(tmp_path)

    def command(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as stop:
            run_stage(ATLAS, words[1:]) if words[0] == "atlas" else run_stage(PROBE, words)
        printed = capsys.readouterr()
        return int(stop.value.code or 0), printed.out + printed.err

    return command


def read_csv(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as stream:
        return list(csv.DictReader(stream))


CLASSES = ["dyed-lifted-polyps", "esophagitis", "normal-pylorus", "normal-z-line", "polyps"]


@pytest.fixture(scope="module")
def kvasir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Classes that differ in color, 16 images each."""
    root = tmp_path_factory.mktemp("data") / "kvasir"
    for c, name in enumerate(CLASSES):
        for i in range(16):
            random = np.random.default_rng(100 * c + i)
            texture = random.integers(0, 110, (10, 10, 3)).astype(np.uint8)
            texture[..., c % 3] += 60 + 20 * (c // 3)
            path = root / name / f"{i:02d}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(texture).resize((80, 72), Image.Resampling.BICUBIC).save(path, quality=92)
    return root


SMALL = ("bootstrap.replicates=50", "grid.training.max_epochs=20", "seeds=2")


def test_atlas_probe_and_prediction(run: Run, kvasir: Path) -> None:
    code, printed = run("atlas", str(kvasir), "out=atlas.parquet")
    assert code == 0, printed
    assert "unmapped labels: 0" in printed and "absent: bkai-neopolyp" in printed
    report = json.loads(Path("atlas.json").read_text())
    assert report["levels"]["region"] == {"colon": 32, "esophagus": 32, "stomach": 16}

    code, printed = run("pixels", "untrained:vit_test", "task=gi-tree,esophagus-disease,bbps", "out=r", *SMALL)
    assert code == 0, printed
    assert "task bbps can't be evaluated: no image has a label of this task" in printed
    results = json.loads(Path("r/results.json").read_text())
    assert [model["name"] for model in results["models"]] == ["pixels", "untrained-vit_test"]
    assert set(results["results"]) == {"gi-tree"}  # esophagitis is the only esophagus disease here
    tree = results["results"]["gi-tree"]["pixels"]
    assert set(tree["levels"]) == {"region", "category", "finding"}
    assert len(tree["tried"]) == 5
    (test,) = results["paired_tests"]
    assert 0 < test["p"] <= test["p_corrected"] <= 1
    assert results["models"][0]["efficiency"]["images_per_second"] > 0
    for name in ("table.md", "table.tex", "summary.csv", "classes.csv", "index.html", "config.yaml", "log.txt"):
        assert Path("r", name).stat().st_size > 0
    cell = re.search(r"\| GI tree \| (\d+)/(\d+) \| (.+?) \| (.+?) \|", Path("r/table.md").read_text())
    assert cell is not None and sum("**" in cell.group(i) for i in (3, 4)) == 1
    best = max("pixels", "untrained-vit_test", key=lambda m: results["results"]["gi-tree"][m]["auc"]["macro"])
    assert ("**" in cell.group(3)) == (best == "pixels")
    latex = Path("r/table.tex").read_text()
    assert r"\textbf{" in latex and r"untrained-vit\_test" in latex and r"95\% bootstrap" in latex
    page = Path("r/index.html").read_text()
    assert page.count("data:image/png;base64,") == 6 and "http" not in page
    rows = read_csv("r/summary.csv")
    assert float(rows[0]["auc"]) == pytest.approx(tree["auc"]["macro"], rel=1e-5)

    # Again: the features come from the cache, and the figures are the same to the last bit.
    code, printed = run("pixels", "untrained:vit_test", "task=gi-tree", "out=r", *SMALL)
    assert code == 0 and printed.count("from the cache") == 2
    assert json.loads(Path("r/results.json").read_text())["results"]["gi-tree"]["pixels"] == tree

    code, printed = run("pixels", "task=gi-tree", "out=r", "split.seed=3", *SMALL)
    assert code == 2 and "atlas.split.parquet was made with the seed 0" in printed and "set split.seed" in printed

    head = "r/heads/pixels/gi-tree.safetensors"
    code, printed = run("predict", head, str(kvasir / "polyps"), "out=p.csv")
    assert code == 0, printed
    predictions = read_csv("p.csv")
    assert list(predictions[0]) == ["file", "category", "confidence", "time_ms"]
    assert {row["file"] for row in predictions} == {str(p) for p in (kvasir / "polyps").iterdir()}
    assert {row["category"].split(":")[0] for row in predictions} == {"region", "category", "finding"}
    assert all(0 <= float(row["confidence"]) <= 1 and float(row["time_ms"]) > 0 for row in predictions)

    code, printed = run("predict", head, str(kvasir / "polyps"), "network=untrained:vit_test")
    assert code == 2 and "was trained on other weights" in printed and len(printed.splitlines()) == 1
    broken = Path("broken.jpg")
    broken.write_bytes((kvasir / "polyps" / "00.jpg").read_bytes()[:200])
    code, printed = run("predict", head, "broken.jpg")
    assert code == 2 and "cannot read the image broken.jpg" in printed and not Path("predictions.csv").exists()
    code, printed = run("predict", "p.csv", "broken.jpg")
    assert code == 2 and "cannot read the head p.csv" in printed


def test_every_word_is_probed(run: Run, kvasir: Path, network_words: dict[str, str]) -> None:
    words = [*network_words.values(), f"data={kvasir}", "out=r", "grid.training.max_epochs=2"]
    code, printed = run(*words, "bootstrap.replicates=10")
    assert code == 0, printed
    results = json.loads(Path("r/results.json").read_text())
    assert [model["name"] for model in results["models"]] == list(network_words)
    assert set(results["results"]["kvasir"]) == set(network_words)
    head = "r/heads/resnet10t-2/kvasir.safetensors"
    code, printed = run("predict", head, str(kvasir / "polyps" / "00.jpg"))
    assert code == 0, printed


def test_a_task_of_ones_own_learns_what_is_there(run: Run, kvasir: Path) -> None:
    code, printed = run("pixels", f"data={kvasir}", "protocol=converged", "out=r", *SMALL)
    assert code == 0, printed
    figures = json.loads(Path("r/results.json").read_text())["results"]["kvasir"]["pixels"]
    assert figures["auc"]["macro"] > 0.9  # color tells the classes apart
    assert figures["auc"]["classes"] == 5
    assert len(figures["tried"]) == 6 + 5
    first, second = figures["seeds"]["values"]
    assert first == pytest.approx(figures["auc"]["macro"], abs=1e-12) and 0.8 < second <= 1
    head = "r/heads/pixels/kvasir.safetensors"
    run("predict", head, str(kvasir), "out=p.csv")
    rows = read_csv("p.csv")
    right = np.mean([Path(row["file"]).parent.name == row["category"] for row in rows])
    assert len(rows) == 80 and right > 0.8


def test_a_csv_with_patients_keeps_them_together(run: Run, kvasir: Path) -> None:
    lines = ["file,label,patient"]
    for name in CLASSES[:2]:
        lines += [f"{kvasir}/{name}/{i:02d}.jpg,{name},p{i // 2}" for i in range(16)]
    Path("t.csv").write_text("\n".join(lines))
    # One draw only: too few for every interval, which is left out and breaks nothing.
    code, printed = run("pixels", "data=t.csv", "out=r", *SMALL[1:], "bootstrap.replicates=1")
    assert code == 0, printed
    assert json.loads(Path("r/t.split.json").read_text())["groups"] == 8
    figures = json.loads(Path("r/results.json").read_text())["results"]["t"]["pixels"]
    assert figures["images"] == 4 * figures["groups"]  # the bootstrap draws patients of four images each


def test_the_grid_of_layers_and_pooling_is_tried_on_a_transformer(run: Run, kvasir: Path) -> None:
    code, printed = run("untrained:vit_test", f"data={kvasir}", "protocol=converged", "out=r", *SMALL, "batch_size=16")
    assert code == 0, printed
    tried = json.loads(Path("r/results.json").read_text())["results"]["kvasir"]["untrained-vit_test"]["tried"]
    kinds = {head["head"].rsplit(", lr", 1)[0] for head in tried if ", lr" in head["head"]}
    assert kinds == {"cls", "cls+mean patch", "cls of 3 blocks"}  # vit_test has three blocks


@pytest.mark.parametrize("word", ["block=last", "block=3", "block=-1", "pooling=cls"])
def test_a_named_last_block_is_not_the_protocols_grid(run: Run, kvasir: Path, word: str) -> None:
    """So that a scan over blocks compares like with like down to its last row."""
    keys = (f"data={kvasir}", "protocol=converged", *SMALL, "batch_size=16")
    code, printed = run("untrained:vit_test", *keys, "out=r", word)
    assert code == 0, printed
    tried = json.loads(Path("r/results.json").read_text())["results"]["kvasir"]["untrained-vit_test"]["tried"]
    assert {head["head"].split(", ")[0] for head in tried} == {"cls"}
    key, value = word.split("=")
    stored = read_yaml(Path("r/config.yaml"))
    assert {"block": "last", "pooling": "cls", key: value} == {name: stored[name] for name in ("block", "pooling")}


def test_any_block_is_probed_and_its_head_reads_that_block_again(run: Run, kvasir: Path) -> None:
    network = find_network("untrained:vit_test")
    module = network.load()
    image_path = kvasir / "polyps" / "03.jpg"
    with torch.no_grad():
        image = network.preprocessing(image_path)[None]
        tokens = module.intermediate(image, 3)  # type: ignore[operator]
    keys = (f"data={kvasir}", *SMALL, "grid.learning_rates=[0.01]")
    code, printed = run("untrained:vit_test", *keys, "out=one", "block=2", "pooling=mean")
    assert code == 0 and "mean patch, block 2 of 3, lr 0.01" in printed
    head = load_head(Path("one/heads/untrained-vit_test/kvasir.safetensors"))
    logits = (tokens[1].patches.mean(1) @ head.weight + head.bias) / head.info.temperature
    assert run("predict", "one/heads/untrained-vit_test/kvasir.safetensors", str(image_path), "out=p.csv")[0] == 0
    (row,) = read_csv("p.csv")
    assert float(row["confidence"]) == pytest.approx(float(logits.sigmoid().max()), abs=1e-3)
    opened = open_head(Path("one/heads/untrained-vit_test/kvasir.safetensors"), HeadConfig(device="cpu"))
    evidence = patch_evidence(opened, image)
    grid = tokens[1].patches.mT.reshape(1, -1, *evidence.shape[-2:])  # type: ignore[union-attr]
    values = torch.einsum("bdhw,dc->bchw", grid, head.weight)
    torch.testing.assert_close(evidence, (values - values.mean((2, 3), keepdim=True)).relu(), rtol=1e-3, atol=1e-4)
    # auto: the later half of the blocks, each pooling; the best on validation is stored, with its own block alone.
    code, printed = run("untrained:vit_test", *keys, "out=auto", "block=auto", "pooling=auto")
    assert code == 0, printed
    found = json.loads(Path("auto/results.json").read_text())["results"]["kvasir"]["untrained-vit_test"]
    assert len(found["tried"]) == 6
    assert found["chosen"]["validation_auc"] == max(t["validation_auc"] for t in found["tried"])
    stored = load_head(Path("auto/heads/untrained-vit_test/kvasir.safetensors"))
    number = int(found["chosen"]["head"].split("block ")[1].split()[0])
    assert stored.info.kind.blocks == (number - 4,) and stored.info.columns.stop <= 2 * tokens[0].cls.shape[1]
    code, printed = run("pixels", *keys, "out=none", "block=2")
    assert code == 2 and "pixels has no blocks" in printed


def test_a_stored_head_computes_its_own_block_alone() -> None:
    """Of two blocks of width 10: their cls and mean patch tokens lie at 0, 10, 20, 30."""
    several = FeatureKind(blocks=(-2, -1))
    assert of_one_block(several, Columns("a", 30, 40), 40) == (FeatureKind(blocks=(-1,)), Columns("a", 10, 20))
    assert of_one_block(several, Columns("a", 0, 20), 40) == (FeatureKind(blocks=(-2,)), Columns("a", 0, 20))
    assert of_one_block(FeatureKind(), Columns("a", 0, 40), 40) == (FeatureKind(), Columns("a", 0, 40))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("pixels", "data=nowhere.parquet"), "cannot read nowhere.parquet: it does not exist"),
        (("pixels", "data=a.parquet", "task=bpps"), "there is no task 'bpps'; did you mean 'bbps'"),
        (("nowhere/weights.pth", "data=DATA"), "nowhere/weights.pth: it does not exist"),
        (("timm:resnet50", "data=DATA"), "no weights on this machine; name a file with timm:resnet50@FILE"),
        (("timm:resnet51", "data=DATA"), "timm has no model 'resnet51'"),
        (("pixels", "data=DATA", "grid.learning_rates=[0]"), "learning_rates[0]' is 0.0, but must be above 0"),
        (("pixels", "data=DATA", "device=gpu"), "device: 'gpu' is no device; use cpu"),
        (("pixels", "data=DATA", "split.train=0.9"), "must add up to 1"),
        (("pixels", "data=DATA", "bootstrap.replicate=5"), "did you mean 'bootstrap.replicates'"),
        (("atlas", "DATA", "out=a.csv"), "let its name end in .parquet"),
        (("atlas", "DATA", "mappings=nowhere"), "mappings=nowhere: there is no such folder"),
        (("atlas", "nowhere"), "cannot read nowhere: it is not a folder"),
    ],
)
def test_mistakes_are_one_sentence(words: tuple[str, ...], message: str, run: Run, kvasir: Path) -> None:
    if "data=a.parquet" in words:
        run("atlas", str(kvasir), "out=a.parquet")
    code, printed = run(*(word.replace("DATA", str(kvasir)) for word in words))
    errors = [line for line in printed.splitlines() if line.startswith("error:")]
    assert code == 2 and len(errors) == 1 and message in errors[0], printed


def test_a_changed_corrupt_image_stops_the_probe_with_its_name(run: Run, kvasir: Path, tmp_path: Path) -> None:
    data = tmp_path / "copy"
    shutil.copytree(kvasir, data)
    (data / "polyps" / "03.jpg").write_bytes(b"no image")
    code, printed = run("pixels", f"data={data}", "out=r", *SMALL)
    assert code == 2 and "polyps/03.jpg" in printed.splitlines()[-1]


def test_a_mapping_with_a_typo_is_named(run: Run, kvasir: Path) -> None:
    Path("m").mkdir()
    Path("m/mine.yaml").write_text("dataset: mine\nlabels: {a: [colon, pathological-findings, colon-polip]}\n")
    code, printed = run("atlas", str(kvasir), "mappings=m")
    assert code == 2 and "m/mine.yaml: a: 'colon-polip' is no finding of colon; did you mean 'colon-polyp'?" in printed


def test_shipped_configs_are_valid() -> None:
    from panendofm.linear_probe.config import ProbeConfig

    published = load_config(ProbeConfig, REPOSITORY / "configs" / "probe" / "published.yaml")
    assert published == ProbeConfig(tasks="published")  # the paper's classes, and else what is the default
    assert load_config(ProbeConfig, REPOSITORY / "configs" / "probe" / "converged.yaml").protocol == "converged"


def test_the_module_runs() -> None:
    import subprocess

    done = subprocess.run(
        [sys.executable, "-m", "panendofm.linear_probe", "predict", "--help"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "HEAD IMAGES" in done.stdout
