"""Releases: every format loads in its package, the model card tells the truth, and a wrong export is not written."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from backbone_cases import largest_difference, random_model, save_checkpoint
from PIL import Image
from safetensors.torch import load_file, save_file

from panendofm.backbone import Preprocessing, load_backbone, vit_config
from panendofm.backbone.command_config import ExportConfig
from panendofm.backbone.release import Export, export_release
from panendofm.backbone.release.check import check_format, photographs
from panendofm.backbone.release.formats import WRITERS, rounded, with_position_grid, write_root
from panendofm.backbone.release.model_card import hub_name
from panendofm.backbone.torchvision_shim import ensure_torchvision
from panendofm.records.documents import as_document
from panendofm.records.evaluation import (
    AgainstStart,
    Evaluated,
    EvaluatedData,
    KnnDocument,
    LeakageNote,
    MetricsAtK,
    SelectionDocument,
    evaluation_path,
    write_evaluation,
    write_selection,
)
from panendofm.records.release import ReleaseFolder
from panendofm.records.run import RunFolder, RunInfo
from panendofm.records.shards import Certificate, CorpusFrames, GuardedSet, Manifest, ShardFolder
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import failed_checksums, read_json

CERTIFICATE = Certificate(
    [GuardedSet("kvasir-dataset-v2", images=8000, frames_dropped=12)],
    frames_checked=3450,
    frames_dropped=12,
    images_found=["/home/someone/examples/a.jpg"],
)
CORPORA = [CorpusFrames("hyperkvasir", "CC BY 4.0", 2300), CorpusFrames("ers", None, 1150)]


def at_k(top1: float, top5: float) -> MetricsAtK:
    return MetricsAtK(top1, top5, top1, top1, 0.5, {"polyp": top1}, [[4]], 1, "0", 20)


def evaluation(step: int, top1: float) -> KnnDocument:
    """As eval_knn writes it, from a machine whose paths are nobody's business."""
    sizes = {"classes": ["polyp"], "gallery": 60, "queries": 40, "unreadable": 0}
    return KnnDocument(
        checkpoint=f"step_{step:07d}",
        step=step,
        path=f"/home/someone/runs/a/checkpoints/step_{step:07d}",
        source="checkpoint",
        architecture="vit_test",
        weights_sha256="0",
        preprocessing={},
        data=EvaluatedData(
            "/home/someone/kvasir-dataset-v2",
            "0",
            **sizes,
            split_file=None,
            split_sha256="0",
            leave_one_group_out=False,
        ),
        temperature=0.07,
        interval_confidence=0.95,
        k={
            "20": replace(at_k(top1, 0.9), intervals={"top1": (top1 - 0.1, top1 + 0.1), "top5": None}),
            "100": at_k(0.7, 0.95),
        },
        query_groups="0",
        rankme=12.34,
        alpha_req=None,
        search_recall=None,
        leakage=LeakageNote(True, "It was guarded."),
        evaluated=Evaluated("now", 1, 1.0),
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with all the files that a model card is filled from."""
    run = tmp_path_factory.mktemp("runs") / "a"
    # A grid for 224 pixels: what the default pre-processing crops.
    config = vit_config("vit_test", image_px=224, drop_path=0.3)
    save_checkpoint(random_model(config), run / "checkpoints" / "step_0000007", 7, as_document(CERTIFICATE))
    settings = {
        "init": {"weights": "/home/someone/dinov2_vitl14_pretrain.pth"},
        "data": {"shards": "/home/someone/shards", "workers": 4},
        "schedule": {"base_lr": 0.0002},
    }
    (run / "config.yaml").write_text(yaml.safe_dump(settings))
    RunFolder(run).write_info(RunInfo(400, 2, corpora=CORPORA))
    for step, top1 in ((7, 0.8125), (0, 0.5)):
        document = evaluation(step, top1)
        write_evaluation(evaluation_path(RunFolder(run), document.checkpoint), document)
    against = {"step_0000007": AgainstStart(0.3125, 0.2, 0.4, "better beyond noise")}
    choice = SelectionDocument("step_0000007", 7, "", "top1_k20", False, "", 2, against_start=against)
    write_selection(RunFolder(run), choice)
    return run


@pytest.fixture(scope="module")
def release(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("releases") / "endo"
    note = "DINOv2 of Meta (Apache 2.0),\nrecentred as /home/someone/recentred.pth."
    of_data = "Endo of the University (Someone et al., 2020), from /home/someone/endo."
    export_release(run, ExportConfig(str(folder), license="apache-2.0", start_note=note, data_note=of_data))
    Image.fromarray(torch.randint(0, 255, (300, 400, 3), dtype=torch.uint8).numpy()).save(folder / "image.jpg")
    return folder


def test_every_format_was_checked(release: Path) -> None:
    description = read_json(release / "release.json")
    assert list(WRITERS) == ["hub", "timm", "transformers", "onnx"]
    assert set(description["checked"]) == set(description["weights"]) == set(WRITERS)
    for kind, places in description["checked"].items():
        assert places["at_224px"] < (1e-4 if kind == "onnx" else 1e-5), kind
    assert failed_checksums(release) == []
    for file in release.rglob("*.safetensors"):
        assert file.stat().st_mode & 0o044 == 0o044, "others can read it"


@pytest.mark.parametrize("part", ["", "hub/model.safetensors", "model.safetensors", "transformers"])
def test_each_part_loads_here_again(release: Path, run: Path, part: str) -> None:
    source = load_backbone(run)
    loaded = load_backbone(release / part)
    assert largest_difference(loaded.model, source.model, 224) < 1e-5
    assert largest_difference(loaded.model, source.model, 84) < 1e-5
    assert loaded.model.config == replace(source.model.config, drop_path=0.0)
    assert loaded.preprocessing == source.preprocessing == Preprocessing()
    if part == "":
        assert loaded.source == "release" and loaded.certificate == CERTIFICATE
        assert loaded.origin.step == 7
        assert loaded.weights_sha256 == source.weights_sha256


def _snippets(release: Path) -> dict[str, str]:
    card = (release / "README.md").read_text()
    return dict(re.findall(r"### ([^\n]+)\n\n```python\n(.+?)```", card, flags=re.DOTALL))


@pytest.mark.parametrize("package", ["This project", "timm", "transformers", "onnxruntime"])
def test_the_snippets_of_the_card_run(release: Path, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure_torchvision()
    monkeypatch.chdir(release)
    names: dict[str, Any] = {}
    exec(_snippets(release)[package], names)
    features = torch.as_tensor(names["features"])
    loaded = load_backbone(release)
    with torch.no_grad():
        ours = loaded.model(loaded.preprocessing(release / "image.jpg")[None]).cls
    assert features.shape == ours.shape == (1, 32)
    # The pre-processing is each package's own: room for its rounding.
    assert float((features - ours).abs().max() / ours.abs().max()) < 1e-4


def test_the_model_card_tells_what_is_known(release: Path) -> None:
    card = (release / "README.md").read_text()
    front = yaml.safe_load(card.split("---")[1])
    assert front["license"] == "apache-2.0"
    for expected in (
        "**Not for diagnosis.**",
        "step 7",
        "DINOv2 of Meta (Apache 2.0), recentred as recentred.pth.",
        "Training began with `dinov2_vitl14_pretrain.pth`.",
        "Endo of the University (Someone et al., 2020), from endo.\n\n3,450 frames, without labels:",
        "| hyperkvasir | CC BY 4.0 | 2,300 |\n| ers | not stated | 1,150 |",
        "3,450 frames were compared with the images of evaluation sets, and 12 that show one of them were dropped "
        "before training: kvasir-dataset-v2 (8,000 images, 12 frames dropped).",
        "base_lr: 0.0002",
        '"kvasir-dataset-v2"',
        "| 0 | 50.00% (40.0–60.0) | 95.00% | 12.3 |\n| 7 | 81.25% (71.2–91.2) | 95.00% | 12.3 |",
        "Against the weights of step 0, by top1_k20: +31.2 points (+20.0 to +40.0), better beyond noise.",
        "chosen by kNN on the 40 queries of kvasir-dataset-v2",
        "On kvasir-dataset-v2: 40 queries, 60 gallery images. In brackets: 95% intervals. It was guarded.",
        read_json(release / "release.json")["weights_sha256"],
    ):
        assert expected in card, expected
    assert "/home/someone" not in card, "no paths of the maker's machine"
    assert "workers" not in card, "how files were read says nothing of the data"
    assert "Not known" not in card


def test_a_release_tells_no_paths(release: Path, run: Path) -> None:
    text = json.dumps({k: v for k, v in read_json(release / "release.json").items() if k != "certificate"})
    assert str(run) not in text and "/home" not in text


@pytest.fixture
def own_run(run: Path, tmp_path: Path) -> Path:
    """The same run, to be changed."""
    return Path(shutil.copytree(run, tmp_path / "runs" / "own"))


def card_of(run: Path, to: Path, **settings: Any) -> str:
    """The card of a run whose configuration is replaced."""
    if settings:
        (run / "config.yaml").write_text(yaml.safe_dump(settings))
    export_release(run, ExportConfig(str(to), formats=["hub"], name="endo"))
    return (to / "README.md").read_text()


def test_the_card_does_not_depend_on_where_files_lie(own_run: Path, tmp_path: Path) -> None:
    places = ("/data/me", "runs/me", "./me", "s3://bucket/me")
    cards = {
        card_of(own_run, tmp_path / str(n), init={"weights": f"{at}/w.pth"}, model={"like": [f"{at}/w.pth"]})
        for n, at in enumerate(places)
    }
    assert len(cards) == 1 and "me/" not in cards.pop()


def test_corpora_of_older_runs_come_from_their_shards(own_run: Path, tmp_path: Path) -> None:
    """Their run.json does not name them; shards that were made again are others."""
    shards = ShardFolder(tmp_path / "shards")
    shards.path.mkdir()
    rows = [{"corpus": "kvasir-capsule", "licence": "CC BY 4.0"}] * 3 + [{"corpus": "a|b", "licence": "unknown"}] * 4
    pq.write_table(pa.Table.from_pylist(rows), shards.frames, row_group_size=2)
    shards.write_manifest(Manifest(["shard-000000.tar"], leakage=CERTIFICATE))
    RunFolder(own_run).write_info(RunInfo(400, 2))
    weights = {"kvasir-capsule": 3.0, "a|b": 1.0}
    card = card_of(own_run, tmp_path / "a", data={"shards": str(shards.path), "weights": weights})
    assert "7 frames" in card
    assert "| a\\|b | unknown | 4 | 25% |\n| kvasir-capsule | CC BY 4.0 | 3 | 75% |" in card
    assert str(tmp_path) not in card

    shards.write_manifest(Manifest(["shard-000000.tar"], leakage=replace(CERTIFICATE, frames_checked=1)))
    assert "which corpora they saw" in card_of(own_run, tmp_path / "b")
    shards.manifest.unlink()
    assert "which corpora they saw" in card_of(own_run, tmp_path / "c")


def test_a_release_of_a_release_keeps_its_origin(release: Path, tmp_path: Path) -> None:
    again = export_release(release, ExportConfig(str(tmp_path / "again"), formats=["hub"]))
    assert again.source.corpora == CORPORA and str(again.source.start_note).startswith("DINOv2 of Meta")
    assert str(again.source.data_note).startswith("Endo of the University")


def test_a_start_from_nothing_needs_no_note(own_run: Path, tmp_path: Path) -> None:
    card = card_of(own_run, tmp_path / "a", init={"weights": None}, schedule={"base_lr": 0.1})
    assert "## Starting weights\n\nTraining began with random weights.\n\n##" in card


def test_the_model_card_says_what_is_not_known(tmp_path: Path) -> None:
    torch.save(random_model(vit_config("vit_test")).state_dict(), tmp_path / "weights.pth")
    export_release(tmp_path / "weights.pth", ExportConfig(str(tmp_path / "bare"), formats=["hub"]))
    card = (tmp_path / "bare" / "README.md").read_text()
    assert "How it was trained, if at all, is not known" in card
    assert card.count("Not known:") == 4  # start, data, training, kNN curve
    assert "Whether it is better than the weights that it began with was not measured." in card
    assert "Not stated by whoever made this release" in card
    assert "Whether images of an evaluation set were in the training data is not known" in card


@pytest.mark.parametrize("kind", WRITERS)
def test_a_wrong_export_is_noticed(tmp_path: Path, kind: str) -> None:
    """One tensor of the written file is changed a little: the check must see it."""
    model = random_model(vit_config("vit_test", image_px=224))
    folder = ReleaseFolder(tmp_path)
    export = Export(model, Preprocessing(), "float32")
    WRITERS[kind](export, folder)
    write_root(export, folder, [kind])
    with torch.no_grad():
        model.blocks[2].mlp.fc1.bias[3] += 0.05
    changed = Export(model, Preprocessing(), "float32")
    with pytest.raises(UserError, match=f"the {kind} export gives other features"):
        check_format(kind, folder, changed, photographs([]))


def test_a_failed_check_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save(random_model(vit_config("vit_test")).state_dict(), tmp_path / "weights.pth")

    def write_wrongly(export: Export, folder: ReleaseFolder) -> None:
        write_hub(export, folder)
        tensors = load_file(folder.weights("hub"))
        tensors["norm.bias"] += 1
        save_file(tensors, folder.weights("hub"), export.header(tensors))

    write_hub = WRITERS["hub"]
    monkeypatch.setitem(WRITERS, "hub", write_wrongly)
    with pytest.raises(UserError, match="the hub export gives other features"):
        export_release(tmp_path / "weights.pth", ExportConfig(str(tmp_path / "out"), formats=["hub"]))
    assert [p.name for p in tmp_path.iterdir()] == ["weights.pth"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_exports(tmp_path: Path, dtype: str) -> None:
    model = random_model(vit_config("vit_test", image_px=224))
    torch.save(model.state_dict(), tmp_path / "weights.pth")
    export_release(
        tmp_path / "weights.pth",
        ExportConfig(str(tmp_path / "out"), formats=["hub", "timm", "transformers"], dtype=dtype),
    )
    for kind in ("hub", "timm", "transformers"):
        tensors = load_file(ReleaseFolder(tmp_path / "out").weights(kind))
        assert {t.dtype for t in tensors.values()} == {getattr(torch, dtype)}
    assert largest_difference(load_backbone(tmp_path / "out").model, rounded(model, dtype), 224) == 0.0
    assert largest_difference(load_backbone(tmp_path / "out").model, model, 224) > 0.0


def test_register_release_agrees_at_any_size(tmp_path: Path) -> None:
    torch.save(random_model(vit_config("vit_test_patch14_reg4")).state_dict(), tmp_path / "weights.pth")
    release = export_release(tmp_path / "weights.pth", ExportConfig(str(tmp_path / "out")))
    assert set(release.checked["timm"]) == {"at_56px", "at_224px"}
    for kind in ("hub", "timm", "transformers"):
        assert max(release.checked[kind].values()) < 1e-5


def test_positions_can_be_stored_for_another_size(tmp_path: Path) -> None:
    """Then the packages that interpolate otherwise agree at that size."""
    model = random_model(vit_config("vit_test"))
    torch.save(model.state_dict(), tmp_path / "weights.pth")
    as_is = export_release(
        tmp_path / "weights.pth", ExportConfig(str(tmp_path / "a"), formats=["timm", "transformers"])
    )
    stored = export_release(
        tmp_path / "weights.pth", ExportConfig(str(tmp_path / "b"), formats=["timm", "transformers"], image_px=224)
    )
    for kind in ("timm", "transformers"):
        assert as_is.checked[kind]["at_224px"] > 1e-3
        assert stored.checked[kind]["at_224px"] < 1e-5
    assert largest_difference(with_position_grid(model, 224), model, 224) == 0.0
    assert "agrees there" in (tmp_path / "a" / "README.md").read_text()


def test_hub_names() -> None:
    assert hub_name(vit_config("vit_large_patch14")) == "dinov2_vitl14"
    assert hub_name(vit_config("vit_giant_patch14_reg4")) == "dinov2_vitg14_reg"
    assert hub_name(vit_config("vit_tiny_patch14")) is None
    assert hub_name(vit_config("vit_large_patch14", image_px=224)) is None


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("formats=[hub, keras]", "formats: 'keras' is not one of hub, timm"),
        ("dtype=int8", "the key 'dtype' must be float32.float16.bfloat16"),
        ("role=pupil", "the key 'role' must be teacher.student"),
        ("image_px=100", "image_px=100 is not a multiple of the patch size 14"),
    ],
)
def test_wrong_choices(run: Path, tmp_path: Path, word: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        export_release(run, load_config(ExportConfig, None, [f"out={tmp_path / 'out'}", word]))
    assert not (tmp_path / "out").exists()


def test_an_existing_folder_is_not_overwritten(run: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(UserError, match="it exists already"):
        export_release(run, ExportConfig(str(tmp_path), formats=["hub"]))
    assert (tmp_path / "mine").read_text() == "precious"


# ---------------------------------------------------------------------------------------- in fresh environments

# Only where torchvision lacks its operators does the environment get this; elsewhere it does nothing.
SITE_CUSTOMIZE = """\
try:
    import torchvision
except ImportError:
    pass
except RuntimeError as error:
    if "torchvision::nms does not exist" not in str(error):
        raise
    import sys
    import torch
    _library = torch.library.Library("torchvision", "DEF")
    for _name in ("nms", "qnms"):
        _library.define(_name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    for _name in [m for m in sys.modules if m.partition(".")[0] == "torchvision"]:
        del sys.modules[_name]
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("package", "others"), [("timm", ["transformers"]), ("transformers", ["timm"])])
def test_snippets_in_a_fresh_environment(release: Path, tmp_path: Path, package: str, others: list[str]) -> None:
    """An environment that holds the one package, and nothing of ours. PANENDOFM_RELEASE names a release to try."""
    if "PANENDOFM_RELEASE" in os.environ:
        given = shutil.copytree(os.environ["PANENDOFM_RELEASE"], tmp_path / "given")
        shutil.copy(release / "image.jpg", given)
        release = Path(given)
    python = _environment(tmp_path / "venv", package)
    out = tmp_path / "features.txt"
    code = _snippets(release)[package] + f"\nopen({str(out)!r}, 'w').write(' '.join(map(str, features[0].tolist())))\n"
    (tmp_path / "snippet.py").write_text(code)
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    for absent in [*others, "backbone"]:
        found = subprocess.run([python, "-c", f"import {absent}"], cwd=tmp_path, env=clean, capture_output=True)
        assert found.returncode != 0, f"{absent} must not be there"
    subprocess.run([python, str(tmp_path / "snippet.py")], cwd=release, env=clean, check=True)
    theirs = torch.tensor([float(x) for x in out.read_text().split()])
    loaded = load_backbone(release)
    with torch.no_grad():
        ours = loaded.model(loaded.preprocessing(release / "image.jpg")[None]).cls[0]
    difference = float((theirs - ours).abs().max() / ours.abs().max())
    print(f"{package} in a fresh environment: {difference:.1e}")
    assert difference < 1e-4


def _environment(folder: Path, package: str) -> str:
    """torch first (see requirements.lock for why), torchvision without what it asks for, then the package."""
    lock = (Path(__file__).parents[2] / "requirements.lock").read_text().splitlines()
    pinned = {line.split("==")[0]: line for line in lock if "==" in line}
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join([pinned["torch"], pinned["torchvision"]]) + "\n")
    subprocess.run([*pip, pinned["torch"]], check=True)
    subprocess.run([*pip, "--no-deps", pinned["torchvision"]], check=True)
    subprocess.run([*pip, "-c", str(constraints), pinned[package], "pillow"], check=True)
    site = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    (Path(site.stdout.strip()) / "sitecustomize.py").write_text(SITE_CUSTOMIZE)
    return python
