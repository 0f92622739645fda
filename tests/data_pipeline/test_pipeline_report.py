"""The report shows what should be looked at; what could show a name is in the private folder only."""

from __future__ import annotations

import base64
import re
import stat
from pathlib import Path

import cv2
import numpy as np
import pyarrow.parquet as pq
import pytest
import simplejpeg
from cleaned_images import recorded
from PIL import Image

from data_pipeline import PipelineConfig, report, shard
from panendofm.records.shards import PrivateFolder, ShardFolder
from panendofm.runtime.config import load_config
from panendofm.runtime.files import read_json, sha256_of

CORPORA = ("good", "spoiled", "written")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, ray_cluster: None) -> PipelineConfig:
    """Three corpora: as it should be, two of three images blurred, and with a name in the image."""
    root = tmp_path_factory.mktemp("report")
    for number, corpus in enumerate(CORPORA):
        (root / corpus).mkdir()
        for i in range(3):
            image = recorded(10 * number + i, text="Doe Jane 12/03/2019" if corpus == "written" else "")
            if corpus == "spoiled" and i:
                inside = image.max(axis=2) > 0
                image = np.where(inside[..., None], cv2.GaussianBlur(image, (0, 0), 12), 0).astype(np.uint8)
            Image.fromarray(image).save(root / corpus / f"patient-doe-{i}.png")
    corpora = ", ".join(f"{name}: {{adapter: folder, root: {name}, license: CC0}}" for name in CORPORA)
    words = [f"data_root={root}", f"out={root / 'shards'}", f"corpora={{{corpora}}}", "screen.text.reader=none"]
    made = load_config(PipelineConfig, None, [*words, "ray.workers=2"])
    shard(made)
    return made


def images_in(page: str) -> list[bytes]:
    return [base64.b64decode(found) for found in re.findall(r"data:image/jpeg;base64,([^\"]+)", page)]


def test_painted_text_is_shown_beside_what_it_was_in_the_private_folder_only(config: PipelineConfig) -> None:
    private = PrivateFolder(config.private_dir)
    page = private.report.read_text()
    rows = pq.read_table(private.painted).to_pylist()
    written = [row for row in rows if row["corpus"] == "written"]  # the detector may err on others
    assert len(written) == 3
    for row in written:
        before, after = (np.asarray(simplejpeg.decode_jpeg(row[part])).astype(int) for part in ("beside", "jpeg"))
        assert before.shape == after.shape
        assert np.abs(before - after).max() > 60, "letters are white before"
        assert row["beside"] in images_in(page) and row["jpeg"] in images_in(page)
    published = (config.out_dir / "report.html").read_text()
    raw = {row["beside"] for row in rows}
    assert not raw & set(images_in(published))
    for path in config.out_dir.iterdir():
        assert not any(content in path.read_bytes() for content in raw), path
    assert "patient-doe" in page and "patient-doe" not in published
    assert stat.S_IMODE(private.report.stat().st_mode) == stat.S_IMODE(private.painted.stat().st_mode) == 0o600


def test_suspicious_sources_come_first(config: PipelineConfig) -> None:
    page = PrivateFolder(config.private_dir).report.read_text()
    table = page[page.index("suspicious ones first") :]
    rows = re.findall(r"<tr>\s*<td[^>]*>([^<]*)</td>\s*<td[^>]*>([^<]*)</td>", table)
    assert len(rows) == 9
    assert [corpus for _, corpus in rows[:2]] == ["spoiled", "spoiled"], "what was dropped whole"
    assert "100% of its frames: blurred" in table
    published = (config.out_dir / "report.html").read_text()
    odd = published[published.index("Sources to look at") : published.index("Corpora")]
    assert odd.count("nothing of it is kept") == 1 and "and 1 more like it" in odd, "two equal rows are one"


def test_random_kept_frames_of_every_corpus(config: PipelineConfig) -> None:
    page = (config.out_dir / "report.html").read_text()
    kept = page[page.index("<h2>Kept frames") :]
    sheets = {c: re.search(rf"<h3>{c}</h3>\s*<div class=\"sheet\">(.*?)</div>", kept, re.DOTALL) for c in CORPORA}
    assert {c: len(images_in(found[1])) for c, found in sheets.items() if found} == {
        "good": 3,
        "spoiled": 1,
        "written": 3,
    }


def test_a_set_without_its_private_folder_still_has_a_report(config: PipelineConfig, tmp_path: Path) -> None:
    elsewhere = load_config(
        PipelineConfig, None, [f"out={config.out_dir}", f"identity.private_dir={tmp_path / 'nothing'}"]
    )
    before = (config.out_dir / "report.html").read_text()
    try:
        assert "Kept frames" in report(elsewhere).read_text()
    finally:
        (config.out_dir / "report.html").write_text(before)


def test_programs_are_told_what_the_set_holds(config: PipelineConfig) -> None:
    """Every file with its checksum, every column of the manifest, and no name of a patient."""
    files = ShardFolder(config.out_dir)
    metadata = read_json(files.croissant)
    listed = {part["contentUrl"]: part["sha256"] for part in metadata["distribution"]}
    assert set(listed) == {"manifest.parquet", *files.read_manifest().shards}
    assert all(sha256_of(config.out_dir / name) == digest for name, digest in listed.items())
    (records,) = metadata["recordSet"]
    assert [field["name"] for field in records["field"]] == pq.read_schema(files.frames).names
    assert metadata["license"] == [f"{corpus}: CC0" for corpus in files_in_order(files)]
    assert "Not compared with any evaluation set." in metadata["rai:dataLimitations"]
    assert "doe" not in files.croissant.read_text().lower()


def files_in_order(files: ShardFolder) -> list[str]:
    return [corpus.name for corpus in files.read_corpora()]
