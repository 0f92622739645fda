"""What is fuzzed: for every reader a valid input, and how it is read.

`read` gives something that can be compared: what the program would go on with. A sealed input carries checksums, so
that any other content must be noticed. An input that is not sealed may come out as other content, since a changed digit
of a plain file is a valid file; all that counts then is that it is read or refused.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from PIL import Image
from safetensors.torch import save_file

# The packages themselves come before tests/, which has folders of the same names.
sys.path.extend(
    str(Path(__file__).resolve().parent.parent / folder)
    for folder in ("..", ".", "backbone", "challenge", "imaging", "pretrain", "vqa")
)

from backbone_cases import random_model, save_checkpoint
from engine_runs import write_shards
from subjects_of_others import (
    converted,
    exported,
    read_dicom_loop,
    read_export,
    read_model_folder,
    read_readers,
    read_reply,
    read_text_reply,
    send_request,
    write_coco,
    write_dicom_loop,
    write_model_folder,
    write_packed_reply,
    write_reader,
    write_reply,
    write_request,
    write_text_reply,
    write_voc,
)
from vqa_benches import disc_bench

from data_pipeline import PipelineConfig
from data_pipeline.decode.config import DecodeConfig
from data_pipeline.decode.interface import DecodeError, frames_of
from eval_knn.config import EvalConfig
from panendofm.atlas import read_labeled_images
from panendofm.atlas.build import load_atlas
from panendofm.atlas.datasets.layouts import read_csv, read_table_of_files
from panendofm.atlas.datasets.mapping import load_mapping
from panendofm.atlas.datasets.regions import _listed
from panendofm.atlas.taxonomy import load_taxonomy, parse_taxonomy
from panendofm.backbone import load_backbone, vit_config
from panendofm.backbone.command_config import ExportConfig
from panendofm.backbone.networks import find_network
from panendofm.backbone.release import export_release, verify_release
from panendofm.challenge.files.annotations import COLUMNS, read_log
from panendofm.challenge.files.findings import read_findings
from panendofm.challenge.files.submissions import read_answers as read_predictions
from panendofm.challenge.files.submissions import read_truth
from panendofm.imaging.images import open_image
from panendofm.linear_probe.heads.head_file import load_head
from panendofm.records.metrics import read_metrics
from panendofm.records.run import RunFolder, read_checkpoint_info
from panendofm.records.shards import read_index
from panendofm.runtime.config import CONFIGS, config_to_yaml, load_config
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_checksums, read_json_object, read_text, write_checksums
from panendofm.vqa.bench.bench_folder import read_bench
from panendofm.vqa.bench.questions.templates import read_templates
from panendofm.vqa.bench.review import read_review
from panendofm.vqa.benchmark import find_benchmark
from panendofm.vqa.client.answers import Prices, Run, read_answers, read_run, write_run
from pretrain.config import PretrainConfig
from pretrain.data.storage.shards import UnreadableSampleError, open_shards


@dataclass(frozen=True)
class Subject:
    """One reader. `make` fills an empty folder; of the files in it those that match `files` are damaged."""

    name: str
    make: Callable[[Path], object]
    read: Callable[[Path], Any]
    files: str = "*"
    sealed: bool = False
    weight: int = 1  # share of the cases; readers that take long get less


def _small() -> Any:
    return random_model(vit_config("vit_test"))


def _weights(path: Path) -> Any:
    return load_backbone(path).weights_sha256


def _release(folder: Path) -> None:
    source = folder.parent / "source.pth"
    torch.save(_small().state_dict(), source)
    export_release(source, ExportConfig(str(folder), formats=["hub"], name="r"))


def _loaded_release(folder: Path) -> Any:
    loaded = load_backbone(folder)
    return loaded.weights_sha256, loaded.preprocessing, loaded.certificate


def _image(kind: str) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        noise = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)
        Image.fromarray(noise).save(folder / f"a.{kind}")

    return make


def _pixels(folder: Path) -> Any:
    return np.asarray(open_image(next(folder.glob("a.*")))).tobytes()


def _video(folder: Path) -> None:
    import cv2

    writer = cv2.VideoWriter(str(folder / "a.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 4, (64, 48))
    for seed in range(6):
        writer.write(np.random.default_rng(seed).integers(0, 256, (48, 64, 3), np.uint8))
    writer.release()


def _frames(folder: Path) -> Any:
    try:
        return [frame.rgb.tobytes() for frame in frames_of(folder / "a.avi", DecodeConfig(fps=4.0))]
    except DecodeError as error:
        raise UserError(str(error)) from error


def _shards(folder: Path) -> None:
    write_shards(folder / "s", videos=4, frames=2, shards=2, side=16)


def _samples(folder: Path) -> Any:
    shards = open_shards(folder / "s")
    try:
        return [(shards.key(row), shards.read(row)) for row in range(len(shards))]
    except UnreadableSampleError as error:
        raise UserError(str(error)) from error
    finally:
        import os

        for descriptor in shards._open.values():
            os.close(descriptor)


def _labelled_tar(folder: Path) -> None:
    with tarfile.open(folder / "a.tar", "w") as archive:
        for number in range(6):
            image = io.BytesIO()
            Image.fromarray(np.random.default_rng(number).integers(0, 256, (16, 16, 3), np.uint8)).save(image, "png")
            about = json.dumps({"label": f"c{number % 2}", "group": f"g{number}"}).encode()
            for name, content in ((f"k{number}.png", image.getvalue()), (f"k{number}.json", about)):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def _labelled(folder: Path) -> Any:
    import shutil

    cache = folder.parent / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    return [(r.name, r.label, r.sha256) for r in read_labeled_images(folder, cache).records]


def _write(name: str, *lines: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _config(schema: type, shipped: str | None) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        text = (CONFIGS / shipped).read_text() if shipped else config_to_yaml(schema())
        (folder / "a.yaml").write_text(text)

    return make


def _loaded_config(schema: type) -> Callable[[Path], Any]:
    return lambda folder: config_to_yaml(load_config(schema, folder / "a.yaml"))


def _head(folder: Path) -> None:
    about = {
        "format": 1,
        "task": "t",
        "classes": ["a", "b"],
        "levels": [["", 0, 2]],
        "exclusive": True,
        "kind": {"layers": 1, "patch_mean": False},
        "columns": {"name": "cls", "start": 0, "stop": 4},
        "temperature": 1.0,
        "word": "x",
        "weights_sha256": "0",
        "architecture": "vit_test",
    }
    tensors = {"weight": torch.ones(4, 2), "bias": torch.zeros(2)}
    save_file(tensors, folder / "head.safetensors", {"linear_probe_head": json.dumps(about)})


def _atlas(folder: Path) -> None:
    from panendofm.atlas.build import build_atlas, save_atlas

    images = folder.parent / "kvasir-dataset-v2"
    for number in range(6):
        label = images / ("polyps" if number % 2 else "normal-cecum")
        label.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray(np.random.default_rng(number).integers(0, 256, (32, 32, 3), np.uint8))
        image.save(label / f"p{number}.jpg")
    save_atlas(build_atlas([f"kvasir:{images}"], 20), folder / "atlas.parquet")


def _answers(folder: Path) -> None:
    lines = [
        {"id": f"q{i}", "variant": {}, "model": "m", "response": "A", "usage": {"prompt_tokens": 3}} for i in range(5)
    ]
    (folder / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _wordings(folder: Path) -> None:
    texts = {question.code: list(question.wordings) for question in find_benchmark("endobench").questions}
    (folder / "t.yaml").write_text(yaml.safe_dump(texts, allow_unicode=True), encoding="utf-8")


def _checkpoint(folder: Path) -> None:
    save_checkpoint(_small(), folder / "step_0000007")


def _files_table(folder: Path) -> None:
    for number in range(4):
        (folder / f"p{number}.jpg").touch()
    _write("t.csv", "file,label,patient", *(f"p{i}.jpg,polyp|ulcer,{i}" for i in range(4)))(folder)


_LABELS = [f"p{i}.jpg,{'abc'[i % 3]}" for i in range(9)]
_BOXES = [f"v.mp4,{i},polyp,0.{i + 1},{i},2,10,12" for i in range(6)]

SUBJECTS = [
    Subject(
        "weights .pth",
        lambda f: torch.save(_small().state_dict(), f / "w.pth"),
        lambda f: _weights(f / "w.pth"),
        weight=3,
    ),
    Subject(
        "weights .pth, old form",
        lambda f: torch.save(_small().state_dict(), f / "w.pth", _use_new_zipfile_serialization=False),
        lambda f: _weights(f / "w.pth"),
        weight=3,
    ),
    Subject(
        "weights .safetensors",
        lambda f: save_file(_small().state_dict(), f / "w.safetensors"),
        lambda f: _weights(f / "w.safetensors"),
        weight=3,
    ),
    Subject(
        "network word",
        lambda f: torch.save(_small().state_dict(), f / "w.pth"),
        lambda f: find_network(str(f / "w.pth")).weights_sha256,
        weight=2,
    ),
    Subject("release", _release, _loaded_release, "[!R]*", sealed=True, weight=3),
    Subject("release, verified", _release, lambda f: len(verify_release(f)), sealed=True, weight=2),
    Subject("checkpoint folder", _checkpoint, lambda f: _weights(f / "step_0000007"), weight=2),
    Subject(
        "checkpoint.json", _checkpoint, lambda f: read_checkpoint_info(f / "step_0000007"), "checkpoint.json", weight=8
    ),
    Subject(
        "config of pretraining",
        _config(PretrainConfig, "pretrain/panendofm_vitl14.yaml"),
        _loaded_config(PretrainConfig),
        weight=2,
    ),
    Subject(
        "config of sharding", _config(PipelineConfig, "corpora/panendo.yaml"), _loaded_config(PipelineConfig), weight=2
    ),
    Subject("config of kNN", _config(EvalConfig, None), _loaded_config(EvalConfig), weight=3),
    Subject("shards", _shards, _samples, weight=6),
    Subject(
        "index of a shard", _shards, lambda f: read_index(f / "s" / "shard-000000.tar"), "*000.index.json", weight=8
    ),
    Subject("labeled WebDataset", _labelled_tar, _labelled, weight=4),
    *(Subject(f"image .{kind}", _image(kind), _pixels, weight=8) for kind in ("jpg", "png", "tif", "bmp", "webp")),
    Subject("video", _video, _frames, weight=3),
    Subject(
        "checksums",
        lambda f: ((f / "a").write_text("a"), write_checksums(f, ["a"])),
        lambda f: read_checksums(f / "SHA256SUMS"),
        "SHA256SUMS",
        weight=8,
    ),
    Subject(
        "metrics",
        _write("m.jsonl", *(json.dumps({"step": i, "loss": 1.5}) for i in range(9))),
        lambda f: read_metrics(f / "m.jsonl"),
        weight=8,
    ),
    Subject(
        "run.json",
        _write("run.json", '{"total_steps": 5, "order_version": 2, "format": 1}'),
        lambda f: RunFolder(f).read_info(),
        weight=8,
    ),
    Subject(
        "JSON", _write("a.json", '{"a": [1, 2.5, {"b": "ä"}]}'), lambda f: read_json_object(f / "a.json"), weight=8
    ),
    Subject("head", _head, lambda f: load_head(f / "head.safetensors").info.classes, weight=8),
    Subject("atlas", _atlas, lambda f: len(load_atlas(f / "atlas.parquet").rows), weight=4),
    Subject(
        "mapping",
        lambda f: (f / "m.yaml").write_bytes(
            next(iter(sorted(Path("panendofm/atlas/mappings").glob("*.yaml")))).read_bytes()
        ),
        lambda f: load_mapping(f / "m.yaml", load_taxonomy()),
        weight=2,
    ),
    Subject(
        "taxonomy",
        lambda f: (f / "t.yaml").write_bytes(Path("panendofm/atlas/taxonomy.yaml").read_bytes()),
        lambda f: parse_taxonomy(read_text(f / "t.yaml"), "t"),
        weight=1,
    ),
    Subject(
        "regions",
        _write("r.jsonl", *(json.dumps({"file": "a.jpg", "label": "polyp", "box": [1, 2, 30, 40]}) for _ in range(4))),
        lambda f: list(_listed(f / "r.jsonl")),
        weight=8,
    ),
    Subject("table of files", _files_table, lambda f: read_table_of_files(f / "t.csv"), "t.csv", weight=8),
    Subject(
        "table", _write("a.csv", "file,label", *_LABELS), lambda f: read_csv(f / "a.csv", ("file", "label")), weight=8
    ),
    Subject("truth", _write("a.csv", *_LABELS), lambda f: read_truth(f / "a.csv").files, weight=8),
    Subject(
        "predictions",
        _write("p.csv", *(f"{line},0.{i + 1}" for i, line in enumerate(_LABELS))),
        lambda f: repr(read_predictions(f / "p.csv", _truth(f.parent))),
        weight=8,
    ),
    Subject(
        "boxes",
        _write("b.csv", "file,frame,category,confidence,x,y,w,h", *_BOXES),
        lambda f: read_findings(f / "b.csv", "prediction", "detection").frames,
        weight=8,
    ),
    Subject(
        "annotations",
        _write("l.csv", ",".join(COLUMNS), "1,a.jpg,0,polyp,1,2,3,4,,independent,d1,,,,2026-01-02"),
        lambda f: read_log(f / "l.csv"),
        weight=8,
    ),
    Subject(
        "bench",
        lambda f: disc_bench(f / "b", 1),
        lambda f: len(read_bench(f / "b", verify=True).items),
        sealed=True,
        weight=4,
    ),
    Subject(
        "run of answers",
        lambda f: write_run(f, Run("0" * 64, "m", prices_per_million=Prices(1.0, 2.0))),
        read_run,
    ),
    Subject("answers", _answers, lambda f: read_answers(f / "answers.jsonl"), weight=8),
    Subject(
        "review",
        _write("r.csv", "id,decision,answer,note,reviewer", "q1,keep,,,a", "q2,fix,B,why,a"),
        lambda f: read_review(f / "r.csv"),
        weight=8,
    ),
    Subject("reply of an endpoint", write_reply, read_reply, weight=8),
    Subject("reply, compressed", write_packed_reply, read_reply, weight=8),
    Subject("text of a reply", write_text_reply, read_text_reply, weight=6),
    Subject("answers of readers", write_reader, read_readers, weight=4),
    Subject("request to the exam", write_request, send_request, weight=4),
    Subject("COCO to YOLO", write_coco, converted("coco", "c.json", "yolo"), weight=6),
    Subject("COCO to CSV", write_coco, converted("coco", "c.json", "csv"), weight=6),
    Subject("Pascal VOC to COCO", write_voc, converted("voc", "a.xml", "coco"), weight=6),
    Subject("CVAT export", exported("cvat.xml"), read_export("cvat.xml"), weight=6),
    Subject("Label Studio export", exported("studio.json"), read_export("studio.json"), weight=6),
    Subject("LabelMe export", exported("labelme"), read_export("labelme"), weight=6),
    Subject("DICOM", write_dicom_loop, read_dicom_loop, weight=6),
    Subject("transformers folder", write_model_folder, read_model_folder, "*.*", weight=1),
    Subject(
        "templates",
        _wordings,
        lambda f: read_templates(str(f / "t.yaml")).texts,
        weight=2,
    ),
]


def _truth(folder: Path) -> Any:
    path = folder / "truth-of-predictions.csv"
    path.write_text("\n".join(_LABELS) + "\n")
    return read_truth(path)


warnings.filterwarnings("ignore")
