"""A small dataset in ERS's layout, with a code for every class that a test wants."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

P = "pathological-findings"
# code → region, category, finding, grade. The meaning is the test's own; ERS's real table is not public.
MEANINGS = {
    "g01": ("stomach", P, "gastric-ulcer", ""),
    "g02": ("stomach", P, "stomach-polyp", ""),
    "g03": ("stomach", P, "erosion-gastric", ""),
    "g04": ("stomach", P, "gastric-varices", ""),
    "g05": ("stomach", P, "stomach-cancer", ""),
    "g06": ("stomach", P, "hyperemic-gastric", ""),
    "g07": ("stomach", P, "hemorrhagic-gastropathy", ""),
    "g08": ("stomach", P, "stenosis-stomach", ""),
    "g09": ("stomach", P, "gastric-lymphoma", ""),
    "g10": ("stomach", P, "hiatus-hernia", ""),
    "g11": ("stomach", P, "dieulafoy-lesion", ""),
    "g12": ("stomach", P, "gastric-cancer", ""),
    "g20": ("stomach", "anatomical-landmarks", "pylorus", ""),
    "g21": ("stomach", "anatomical-landmarks", "retroflex-stomach", ""),
    "g30": ("esophagus", P, "barretts", "normal-barretts"),
    "g31": ("esophagus", P, "barretts-short-segment", ""),
    "g32": ("esophagus", P, "barretts", "high-grade-dysplasia"),
    "g33": ("esophagus", P, "esophagitis", ""),
    "g40": ("small-intestine", P, "erosion-SI", ""),
    "g41": ("small-intestine", P, "angiodysplasia-SI", ""),
    "g42": ("small-intestine", P, "angiectasia-SI", ""),
    "c01": ("colon", P, "ulcerative-colitis", "MAYO-0"),
    "c02": ("colon", P, "ulcerative-colitis", "MAYO-1"),
    "c03": ("colon", P, "ulcerative-colitis", "MAYO-2"),
    "c04": ("colon", P, "ulcerative-colitis", "MAYO-3"),
    "c10": ("colon", P, "colon-polyp", "adenomatous"),
    "c11": ("colon", P, "colon-polyp", "hyperplastic"),
    "c12": ("colon", P, "colon-polyp", "serrated"),
    "c13": ("colon", P, "colorectal-cancer", "invasive-cancer"),
    "c20": ("colon", "quality-control", "BBPS-0-1", ""),
    "c21": ("colon", "quality-control", "BBPS-2-3", ""),
    "c22": ("colon", "quality-control", "impacted-stool", ""),
}
PATIENTS_PER_CODE = 4


def write_ers(folder: Path) -> None:
    """Four patients a code with an image each; the color of an image tells its code."""
    patient = 0
    for number, code in enumerate(MEANINGS):
        for _ in range(PATIENTS_PER_CODE):
            patient += 1
            samples = folder / f"{patient:04d}" / "samples"
            random = np.random.default_rng(patient)
            texture = random.integers(40, 200, (8, 8, 3)).astype(np.uint8)
            texture[..., number % 3] = 60 + 4 * number
            (samples / "frames").mkdir(parents=True)
            (samples / "labels").mkdir()
            image = Image.fromarray(texture).resize((48, 48), Image.Resampling.BICUBIC)
            image.save(samples / "frames" / "000001.png")
            (samples / "labels" / f"000001_{code}.png").touch()


def code_table() -> str:
    lines = [",".join((code, *levels)) for code, levels in MEANINGS.items()]
    return "\n".join(["code,region,category,finding,grade", *lines]) + "\n"
