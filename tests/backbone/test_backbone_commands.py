"""The commands of `panendofm backbone`, run as users run them."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from backbone_cases import random_model
from PIL import Image

from panendofm.backbone import load_backbone, vit_config
from panendofm.backbone.__main__ import STAGE
from panendofm.backbone.embed import ImageList
from panendofm.backbone.networks import find_network
from panendofm.backbone.visualize.patches import patches_and_attention, principal_colors
from panendofm.runtime.command_line import run_stage

REPOSITORY = Path(__file__).resolve().parents[2]


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """In this process: a fresh one needs seconds for its imports. The first test below starts a real one."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
        run_stage(STAGE, [str(word) for word in words])
    return subprocess.CompletedProcess(words, int(ended.value.code or 0), out.getvalue(), err.getvalue())


def test_the_command_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "panendofm.backbone", "info", str(tmp_path / "nowhere.pth")]
    failed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert failed.returncode == 2
    assert failed.stderr == (
        f"error: cannot load a backbone from {tmp_path / 'nowhere.pth'}: it does not exist; check the path.\n"
    )


def image(seed: int) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 255, (12, 16, 3), dtype=np.uint8)
    return Image.fromarray(pixels).resize((320, 240), Image.Resampling.BICUBIC)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "test.safetensors"
    made = run("init", "vit_test", f"out={path}", "seed=5")
    assert made.returncode == 0, made.stderr
    return path


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    (folder / "polyps").mkdir()
    for name, seed in (("b.png", 1), ("a.png", 2), ("polyps/c.png", 3)):
        image(seed).save(folder / name)
    (folder / "notes.txt").write_text("no image")
    return folder


def shard_of(folder: Path, path: Path) -> Path:
    with tarfile.open(path, "w") as archive:
        for image in sorted(folder.rglob("*.png")):
            for name, content in ((image.name, image.read_bytes()), (f"{image.stem}.json", b"{}")):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return path


def test_init_follows_its_seed(weights: Path, tmp_path: Path) -> None:
    from panendofm.backbone import VisionTransformer

    torch.manual_seed(5)
    expected = VisionTransformer(vit_config("vit_test"))
    loaded = load_backbone(weights)
    assert loaded.architecture == "vit_test" and loaded.source == "panendofm"
    for name, tensor in expected.state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], tensor), name


def test_info(weights: Path) -> None:
    told = run("info", weights)
    assert told.returncode == 0, told.stderr
    assert "0 missing, 0 unexpected" in told.stdout
    assert load_backbone(weights).weights_sha256 in told.stdout
    assert "vit_test" in told.stdout


def test_embed(weights: Path, images: Path, tmp_path: Path) -> None:
    done = run("embed", weights, images, f"out={tmp_path / 'features.parquet'}", "device=cpu", "batch_size=2")
    assert done.returncode == 0, done.stderr
    assert "attention sdpa" in done.stdout, "the backend is named in the log"
    table = pq.read_table(tmp_path / "features.parquet")
    assert table["key"].to_pylist() == ["a.png", "b.png", "polyps/c.png"]
    loaded = load_backbone(weights)
    assert table.schema.metadata[b"weights_sha256"].decode() == loaded.weights_sha256
    for key, row in zip(table["key"].to_pylist(), table["features"].to_pylist(), strict=True):
        with torch.no_grad():
            expected = loaded.model(loaded.preprocessing(images / key)[None]).cls[0]
        torch.testing.assert_close(torch.tensor(row), expected, rtol=1e-5, atol=1e-5)


def test_embed_of_a_block(weights: Path, images: Path, tmp_path: Path) -> None:
    out = tmp_path / "features.parquet"
    words = ("embed", weights, images, f"out={out}", "device=cpu", "block=2", "pooling=both")
    done = run(*words)
    assert done.returncode == 0, done.stderr
    table = pq.read_table(out)
    loaded = load_backbone(weights)
    depth = loaded.model.config.depth
    assert table.schema.metadata[b"reading"].decode() == f"cls+mean patch, block 2 of {depth}"
    for key, row in zip(table["key"].to_pylist(), table["features"].to_pylist(), strict=True):
        with torch.no_grad():
            tokens = loaded.model.intermediate(loaded.preprocessing(images / key)[None], depth)[1]
        expected = torch.cat([tokens.cls[0], tokens.patches[0].mean(0)])
        torch.testing.assert_close(torch.tensor(row), expected, rtol=1e-5, atol=1e-5)
    refused = run(*words[:-2], "block=auto")
    assert refused.returncode == 2 and "no labels to choose by" in refused.stderr


@pytest.mark.parametrize("name", ["pixels", "resnet10t-2", "tiny"])
def test_embed_and_show_take_every_network(
    network_words: dict[str, str], name: str, images: Path, tmp_path: Path
) -> None:
    word = network_words[name]
    done = run("embed", word, images, f"out={tmp_path / 'f.parquet'}", "device=cpu")
    assert done.returncode == 0, done.stderr
    network = find_network(word)
    row = torch.tensor(pq.read_table(tmp_path / "f.parquet")["features"].to_pylist()[0])
    with torch.no_grad():
        torch.testing.assert_close(row, network.load()(network.preprocessing(images / "a.png")[None])[0])
    refused = run("embed", word, images, f"out={tmp_path / 'g.parquet'}", "patch_mean=true")
    assert refused.returncode == 2 and "gives one vector per image" in refused.stderr
    done = run("show", word, images / "a.png", f"out={tmp_path / 'seen.png'}")
    assert done.returncode == 0, done.stderr
    with Image.open(tmp_path / "seen.png") as seen:
        assert seen.width < 2.4 * seen.height, "two columns: it tells no attention"


def test_embed_of_a_shard_equals_embed_of_its_images(weights: Path, images: Path, tmp_path: Path) -> None:
    shard = shard_of(images, tmp_path / "shard-000000.tar")
    arguments = (f"out={tmp_path / 'f.parquet'}", "layers=2", "patch_mean=true")
    done = run("embed", weights, images, shard, *arguments)
    assert done.returncode == 0, done.stderr
    table = pq.read_table(tmp_path / "f.parquet")
    assert table["key"].to_pylist()[3:] == [f"shard-000000.tar/{name}" for name in ("a.png", "b.png", "c.png")]
    rows = np.array(table["features"].to_pylist())
    assert rows.shape == (6, 3 * 32)
    np.testing.assert_allclose(rows[:3], rows[3:], atol=1e-5)
    assert np.abs(rows[0] - rows[1]).max() > 1e-4, "different images have different features"


def test_images_of_a_list_are_read_by_position(images: Path, tmp_path: Path) -> None:
    listed = ImageList([shard_of(images, tmp_path / "s.tar")])
    assert np.array_equal(np.asarray(listed[2]), np.asarray(image(3)))


@pytest.mark.parametrize("broken", ["image", "shard"])
def test_embed_names_what_it_cannot_read(weights: Path, images: Path, tmp_path: Path, broken: str) -> None:
    bad = tmp_path / ("bad.png" if broken == "image" else "bad.tar")
    whole = (images / "a.png").read_bytes() if broken == "image" else b"x" * 2000
    bad.write_bytes(whole[: len(whole) // 2])
    done = run("embed", weights, images, bad, f"out={tmp_path / 'f.parquet'}")
    assert done.returncode == 2
    assert str(bad) in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "f.parquet").exists()


def test_show(weights: Path, images: Path, tmp_path: Path) -> None:
    done = run("show", weights, images / "a.png", images / "b.png", f"out={tmp_path / 'seen.png'}")
    assert done.returncode == 0, done.stderr
    with Image.open(tmp_path / "seen.png") as seen:
        pixels = np.asarray(seen.convert("RGB"))
    assert pixels.shape[0] > 500 and pixels.shape[1] > 800
    thirds = [part.reshape(-1, 3).std() for part in np.array_split(pixels, 3, axis=1)]
    assert min(thirds) > 10, "every column shows something"


def test_attention_is_what_the_last_block_computes() -> None:
    """The weights of the cls token, applied to the values, give what the block's attention puts out for it."""
    model = random_model(vit_config("vit_test_patch14_reg4", depth=2))
    images = torch.randn(2, 3, 84, 56)
    seen: dict[str, torch.Tensor] = {}
    last = model.blocks[-1].attn
    last.qkv.register_forward_hook(lambda m, i, out: seen.update(qkv=out.view(2, -1, 3, 4, 8)))
    last.proj.register_forward_pre_hook(lambda m, i: seen.update(mixed=i[0].view(2, -1, 4, 8)))
    patches, attention = patches_and_attention(model, images)
    assert patches.shape == (2, 24, 32) and attention.shape == (2, 4, 24)
    query, keys, values = (seen["qkv"][:, :, i] for i in range(3))
    full = (torch.einsum("bhd,bthd->bht", query[:, 0], keys) / 8**0.5).softmax(-1)
    torch.testing.assert_close(torch.einsum("bht,bthd->bhd", full, values), seen["mixed"][:, 0])
    torch.testing.assert_close(attention, full[..., 5:])


def test_principal_colors_separate_what_differs() -> None:
    patches = torch.randn(1, 40, 8) * 0.01
    patches[:, :20, 3] += 1
    colors = principal_colors(patches)
    assert colors.shape == (1, 40, 3) and float(colors.min()) >= 0 and float(colors.max()) <= 1
    assert float(colors[0, :20, 0].min()) > float(colors[0, 20:, 0].max()) + 0.5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["info", "nowhere.pth"], "nowhere.pth: it does not exist"),
        (["init", "vit_enormous", "out=x"], "unknown backbone 'vit_enormous'"),
        (["embed", "WEIGHTS", "nowhere", "out=x.parquet"], "cannot read nowhere"),
        (
            ["embed", "WEIGHTS", "IMAGES", "out=x.parquet", "layers=9"],
            "layers=9: this backbone has 3",
        ),
        (["embed", "WEIGHTS", "IMAGES", "out=x.parquet", "device=tpu9"], "'tpu9' is no device"),
        (["show", "WEIGTHS", "IMAGES"], "cannot load a network from WEIGTHS: it does not exist"),
        (["show", "WEIGHTS", "nowhere.jpg"], "cannot read the image nowhere.jpg"),
        (["show", "WEIGHTS", "IMAGES", "out=x.doc"], "name a .png"),
        (["export", "WEIGHTS"], "'out' has no value"),
        (["expotr", "WEIGHTS"], "did you mean 'export'?"),
    ],
)
def test_mistakes_get_one_sentence(weights: Path, images: Path, words: list[str], message: str) -> None:
    named = {"WEIGHTS": str(weights), "IMAGES": str(images)}
    failed = run(*(named.get(word, word) for word in words))
    assert failed.returncode == 2
    assert message in failed.stderr and len(failed.stderr.strip().splitlines()) == 1, failed.stderr
    assert not (REPOSITORY / "x.parquet").exists()


def test_a_start_without_its_share_is_refused(weights: Path, tmp_path: Path) -> None:
    done = run("export", weights, f"out={tmp_path / 'release'}", f"start={weights}")
    assert done.returncode == 2 and "average_with_start" in done.stderr
    assert not (tmp_path / "release").exists()
