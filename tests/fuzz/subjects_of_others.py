"""More of what is fuzzed: replies of endpoints, files of readers and annotators, requests of clients, model folders."""

from __future__ import annotations

import asyncio
import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import annotation_exports as exports
import numpy as np
import torch
from starlette.requests import Request
from test_dicom import write_dicom
from vqa_benches import disc_bench

from panendofm.backbone import ensure_torchvision
from panendofm.backbone.networks import find_network
from panendofm.challenge.annotate.acts import acts_of, read_exports
from panendofm.challenge.config import ConvertConfig
from panendofm.challenge.convert import convert
from panendofm.challenge.files.annotations import COLUMNS, Log
from panendofm.imaging.dicom import dicom_frames
from panendofm.runtime.errors import UserError
from panendofm.scoring.answers.box_replies import read_boxes
from panendofm.scoring.answers.replies import read_choice
from panendofm.vqa.bench.bench_folder import Bench, read_bench
from panendofm.vqa.client.completions import BodyReader, UnreadableReplyError, error_words, read_completion
from panendofm.vqa.people.exam import Exam
from panendofm.vqa.people.local_server import LocalServer, json_content
from panendofm.vqa.people.readers import ReaderAnswer, ReaderFile, read_people

_ORGANS = ("Esophagus", "Large intestine", "Stomach", "Small intestine")
_COMPLETION = {
    "model": "m",
    "choices": [{"message": {"content": "The answer isn't A, it's (C). [10, 20, 30, 40]"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 2},
}
_VOC = """<annotation><filename>a.jpg</filename><size><width>100</width><height>80</height></size>
<object><name>polyp</name><bndbox><xmin>10</xmin><ymin>10</ymin><xmax>30</xmax><ymax>30</ymax></bndbox></object>
</annotation>"""
_COCO = {
    "images": [{"id": n, "file_name": f"{n}.jpg", "width": 100, "height": 80} for n in (1, 2)],
    "annotations": [{"id": n, "image_id": n, "category_id": 1, "bbox": [10, 10, 20, 20]} for n in (1, 2)],
    "categories": [{"id": 1, "name": "polyp"}],
}


def write_reply(folder: Path) -> None:
    (folder / "reply.json").write_text(json.dumps(_COMPLETION))


def write_packed_reply(folder: Path) -> None:
    (folder / "reply.json.gz").write_bytes(gzip.compress(json.dumps(_COMPLETION).encode(), mtime=0))


def read_reply(folder: Path) -> Any:
    """As the client does: bytes, completion, and what the text chooses."""
    file = next(folder.glob("reply.*"))
    try:
        reader = BodyReader({"Content-Encoding": "gzip"} if file.suffix == ".gz" else {})
        reader.add(file.read_bytes())
        content = reader.content()
    except UnreadableReplyError as error:
        raise UserError(str(error)) from error
    error_words(content).encode()
    found = read_completion(content)
    if found is None:
        raise UserError("no chat completion")
    json.dumps([found.usage, found.model, found.finish_reason], allow_nan=False).encode()
    found.text.encode()
    return found, read_choice(found.text, _ORGANS), read_boxes(found.text, (640, 480))


def write_text_reply(folder: Path) -> None:
    text = 'A and B are wrong, so the final answer is {"answer": "C"} or [1, 2, 3, 4]. 答案是C，不是A。\n'
    (folder / "reply.txt").write_text(text * 20)


def read_text_reply(folder: Path) -> Any:
    text = (folder / "reply.txt").read_bytes().decode(errors="surrogateescape")
    choice = read_choice(text, _ORGANS)
    boxes = read_boxes(text, (640, 480))
    if choice.letter is None and not boxes.boxes:
        raise UserError(f"nothing is chosen ({choice.status}, {boxes.status})")
    return choice, boxes


def _bench(folder: Path) -> Bench:
    """One that people answer, too."""
    place = folder.parent / "bench"
    bench = read_bench(place) if place.is_dir() else disc_bench(place, 1)
    return replace(bench, items=[replace(item, human=True) for item in bench.items])


def write_reader(folder: Path) -> None:
    bench = _bench(folder)
    file = ReaderFile(folder, "junior-1")
    file.open("juniors", bench)
    for order, item in enumerate(bench.items):
        file.append(ReaderAnswer(item.id, "junior-1", "juniors", "A", 2.5, order, bench.checksum))


def read_readers(folder: Path) -> Any:
    return read_people(folder, _bench(folder), True)


def write_request(folder: Path) -> None:
    item = _bench(folder).items[0]
    (folder / "request.json").write_text(json.dumps({"id": item.id, "response": "A", "seconds": 2.5}))


def send_request(folder: Path) -> Any:
    """Through the server's own way: token, body, route, file."""
    bench = _bench(folder)
    people = folder.parent / "people"
    file = ReaderFile(people, "junior-1")
    people.mkdir(exist_ok=True)
    file.answers.unlink(missing_ok=True)
    exam = Exam(bench, "junior-1", "juniors", file)
    server = LocalServer({}, {"/answer": lambda posted: json_content(exam.answer(posted))})
    address = urlsplit(server.address)
    headers = [(b"host", address.netloc.encode())]
    scope = {"type": "http", "method": "POST", "path": "/answer", "headers": headers}
    scope["query_string"] = address.query.encode()
    body = (folder / "request.json").read_bytes()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    try:
        status, _, content = asyncio.run(server._answer(Request(scope, receive)))
    finally:
        server.close()
    if status != 200:
        raise UserError(content.decode(errors="replace").replace("\n", " "))
    file.rows(bench)  # what was stored can be read
    return content


def write_voc(folder: Path) -> None:
    (folder / "a.xml").write_text(_VOC)


def write_coco(folder: Path) -> None:
    (folder / "c.json").write_text(json.dumps(_COCO))


def converted(source_format: str, name: str, target_format: str) -> Any:
    def read(folder: Path) -> Any:
        import shutil

        out = folder.parent / f"converted-{target_format}"
        shutil.rmtree(out, ignore_errors=True)
        config = ConvertConfig(str(out / "x"), source_format=source_format, target_format=target_format)
        boxes = convert(folder / name, config)
        return boxes, sorted((p.name, p.read_bytes()) for p in out.rglob("*") if p.is_file())

    return read


def exported(name: str) -> Any:
    """A small export of an annotation tool, by its file's name."""

    def write(folder: Path) -> None:
        boxes: exports.Boxes = {"a.png": [("polyp", (10, 10, 40, 40)), ("tool", (5, 50, 20, 30))], "b.png": []}
        if name == "cvat.xml":
            exports.cvat(folder / name, boxes, "dr-one")
        elif name == "studio.json":
            exports.label_studio(folder / name, boxes, 3)
        else:
            exports.labelme(folder / name, boxes, polyp=True)

    return write


def read_export(name: str) -> Any:
    """As the acts of a new log."""

    def read(folder: Path) -> Any:
        images = read_exports([folder / name])
        log = Log(folder.parent / "log.csv", COLUMNS, ())
        return [act.cells() for act in acts_of(log, images, "independent", "x", "2026-01-02")]

    return read


def write_dicom_loop(folder: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2, 8, 12, 3), np.uint8)
    write_dicom(folder / "a.dcm", pixels, PhotometricInterpretation="RGB")


def read_dicom_loop(folder: Path) -> Any:
    return [frame.tobytes() for frame in dicom_frames(folder / "a.dcm")]


def write_model_folder(folder: Path) -> None:
    ensure_torchvision()
    from transformers import ViTConfig, ViTModel

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    ViTModel(ViTConfig(**sizes, image_size=32, patch_size=16)).save_pretrained(folder)


def read_model_folder(folder: Path) -> Any:
    return find_network(f"transformers:{folder}").weights_sha256
