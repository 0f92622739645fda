"""DICOM pixels against pydicom's own arrays: color spaces, bits, windows, many frames, compression, damage."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from panendofm.imaging.dicom import dicom_frames, read_dicom_frame
from panendofm.imaging.images import UnreadableImageError, open_image

pydicom = pytest.importorskip("pydicom")
from pydicom.dataset import FileDataset, FileMetaDataset  # noqa: E402
from pydicom.encaps import encapsulate  # noqa: E402
from pydicom.pixels import convert_color_space  # noqa: E402
from pydicom.pixels.processing import apply_color_lut, apply_voi_lut  # noqa: E402

RANDOM = np.random.default_rng(0)
NATIVE = pydicom.uid.ExplicitVRLittleEndian


def write_dicom(path: Path, pixels: np.ndarray | list[bytes], syntax: str = NATIVE, **tags: Any) -> Path:
    """pixels: [H, W], [H, W, 3], [F, H, W, 3], or the compressed frames."""
    meta = FileMetaDataset()
    meta.TransferSyntaxUID = syntax
    meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.3.1"  # ultrasound, many frames
    meta.MediaStorageSOPInstanceUID = pydicom.uid.generate_uid()
    dataset = FileDataset(None, {}, file_meta=meta, preamble=b"\0" * 128)
    dataset.SOPClassUID, dataset.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
    dataset.PixelRepresentation, dataset.BitsAllocated, dataset.BitsStored, dataset.HighBit = 0, 8, 8, 7
    if isinstance(pixels, np.ndarray):
        colors = pixels.shape[-1] == 3
        dataset.SamplesPerPixel = 3 if colors else 1
        dataset.Rows, dataset.Columns = pixels.shape[-3:-1] if colors else pixels.shape[-2:]
        if pixels.ndim == (4 if colors else 3):
            dataset.NumberOfFrames = len(pixels)
        dataset.PixelData = pixels.tobytes()
    else:
        dataset.SamplesPerPixel, dataset.NumberOfFrames = 3, len(pixels)
        dataset.PixelData = encapsulate(pixels)
    if dataset.SamplesPerPixel == 3:
        dataset.PlanarConfiguration = 0
    for name, value in tags.items():
        setattr(dataset, name, value)
    dataset["PixelData"].VR = "OW" if dataset.BitsAllocated > 8 else "OB"
    dataset["PixelData"].is_undefined_length = not isinstance(pixels, np.ndarray)
    dataset.save_as(path, enforce_file_format=True)
    return path


def noise(*shape: int, high: int = 256, kind: type = np.uint8) -> np.ndarray:
    return np.asarray(RANDOM.integers(0, high, shape), kind)


def test_frames_of_a_cine_loop_equal_pydicom(tmp_path: Path) -> None:
    pixels = noise(5, 24, 32, 3)
    path = write_dicom(tmp_path / "loop.dcm", pixels, PhotometricInterpretation="RGB")
    frames = list(dicom_frames(path))
    expected = pydicom.dcmread(path).pixel_array
    assert len(frames) == 5 and all(np.array_equal(a, b) for a, b in zip(frames, expected, strict=True))
    assert np.array_equal(read_dicom_frame(path, frame=3), expected[3])
    assert np.array_equal(np.asarray(open_image(path)), expected[0])  # as of any animation, the first
    with pytest.raises(UnreadableImageError, match="no frame 5"):
        read_dicom_frame(path, frame=5)


def test_ybr_is_rgb_as_pydicom_converts_it(tmp_path: Path) -> None:
    pixels = noise(24, 32, 3)
    path = write_dicom(tmp_path / "ybr.dcm", pixels, PhotometricInterpretation="YBR_FULL")
    assert np.array_equal(read_dicom_frame(path), convert_color_space(pixels, "YBR_FULL", "RGB"))


def test_jpeg_frames_equal_pydicom(tmp_path: Path) -> None:
    smooth = np.linspace(0, 255, 24 * 32 * 3).reshape(24, 32, 3).astype(np.uint8)
    frames = []
    for quality in (95, 60):
        buffer = io.BytesIO()
        Image.fromarray(smooth).save(buffer, "JPEG", quality=quality)
        frames.append(buffer.getvalue())
    tags = {"Rows": 24, "Columns": 32, "PhotometricInterpretation": "YBR_FULL_422"}
    path = write_dicom(tmp_path / "jpeg.dcm", frames, pydicom.uid.JPEGBaseline8Bit, **tags)
    ours = np.stack(list(dicom_frames(path)))
    assert np.array_equal(ours, pydicom.pixels.pixel_array(path))
    assert np.abs(ours[0].astype(int) - smooth).mean() < 8  # colors, not YBR


def test_run_lengths_equal_pydicom(tmp_path: Path) -> None:
    pixels = np.repeat(noise(24, 4, 3), 8, axis=1)
    path = write_dicom(tmp_path / "raw.dcm", pixels, PhotometricInterpretation="RGB")
    dataset = pydicom.dcmread(path)
    dataset.compress(pydicom.uid.RLELossless)
    dataset.save_as(tmp_path / "rle.dcm", enforce_file_format=True)
    assert np.array_equal(read_dicom_frame(tmp_path / "rle.dcm"), pixels)


def test_inverted_gray_and_palettes(tmp_path: Path) -> None:
    gray = noise(24, 32)
    path = write_dicom(tmp_path / "one.dcm", gray, PhotometricInterpretation="MONOCHROME1")
    assert np.array_equal(read_dicom_frame(path), np.repeat(255 - gray[..., None], 3, axis=2))
    tags: dict[str, Any] = {"PhotometricInterpretation": "PALETTE COLOR"}
    for name in ("Red", "Green", "Blue"):
        tags[f"{name}PaletteColorLookupTableDescriptor"] = [256, 0, 16]
        tags[f"{name}PaletteColorLookupTableData"] = noise(256, high=65536, kind=np.uint16).tobytes()
    path = write_dicom(tmp_path / "palette.dcm", gray, **tags)
    expected = apply_color_lut(gray, pydicom.dcmread(path)) >> 8
    assert np.array_equal(read_dicom_frame(path), expected)


def test_twelve_bits_with_and_without_a_window(tmp_path: Path) -> None:
    deep = noise(24, 32, high=4096, kind=np.uint16)
    tags = {"PhotometricInterpretation": "MONOCHROME2", "BitsAllocated": 16, "BitsStored": 12, "HighBit": 11}
    path = write_dicom(tmp_path / "deep.dcm", deep, **tags)
    assert np.array_equal(read_dicom_frame(path)[..., 0], deep >> 4)
    path = write_dicom(tmp_path / "window.dcm", deep, **tags, WindowCenter=1000, WindowWidth=500)
    expected = np.round(apply_voi_lut(deep, pydicom.dcmread(path)) / 4095 * 255)
    assert np.array_equal(read_dicom_frame(path)[..., 0], expected)
    assert (read_dicom_frame(path)[..., 0][deep < 700] == 0).all()


def test_damage_is_one_sentence(tmp_path: Path) -> None:
    whole = write_dicom(tmp_path / "a.dcm", noise(2, 24, 32, 3), PhotometricInterpretation="RGB").read_bytes()
    for name, content in (("cut.dcm", whole[:-900]), ("head.dcm", whole[:140]), ("text.dcm", b"no DICOM")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UnreadableImageError, match=name) as raised:
            list(dicom_frames(tmp_path / name))
        assert "\n" not in str(raised.value)
