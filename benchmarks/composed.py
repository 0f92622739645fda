"""Images put together from known parts: planted text, openings, recorders' screens, and things that are no endoscopy.

Everything is drawn from a seed, so that a figure measured on them can be measured again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage
from PIL import ImageDraw, ImageFont

Image = NDArray[np.uint8]  # [H, W, 3] RGB
Color = tuple[int, int, int]
Box = tuple[int, int, int, int]  # left, top, right, bottom

FONTS = ("plain", "bold", "strokes", "serif")
WORDS = (
    "DOE, JANE",
    "12/03/2014",
    "ID: 482910",
    "Dr. NORDMANN",
    "14:32:07",
    "Age: 57",
    "MUSTER ERIKA",
    "CVP:A3 15.08.2011",
)


@dataclass(frozen=True)
class Label:
    """Text as it is planted: its letters' height in pixels, how strongly it stands out, how it is turned."""

    text: str
    height_px: float
    font: str = "plain"
    color: Color = (235, 235, 235)
    opacity: float = 1.0
    degrees: float = 0.0


def write(image: Image, label: Label, at: tuple[float, float]) -> tuple[Image, NDArray[np.float32]]:
    """The image with the label's left end at `at` (x, y of its upper corner), and its ink [H, W], 0 to 1."""
    ink = _letters(label)
    height, width = image.shape[:2]
    turn = cv2.getRotationMatrix2D((0.0, ink.shape[0] / 2), label.degrees, 1.0)
    turn[:, 2] += at
    placed = cv2.warpAffine(ink, turn, (width, height), flags=cv2.INTER_LINEAR) * label.opacity
    mixed = image * (1 - placed[..., None]) + np.array(label.color) * placed[..., None]
    return np.asarray(mixed.round(), np.uint8), np.asarray(placed, np.float32)


def size_of(label: Label) -> tuple[int, int]:
    """Width and height of the unturned label."""
    height, width = _letters(label).shape
    return width, height


def _letters(label: Label) -> NDArray[np.float32]:
    """The label's ink, cut to its letters [h, w]."""
    if label.font in ("plain", "bold"):
        font = ImageFont.load_default(label.height_px / 0.72)
        stroke = max(1, round(label.height_px / 14)) if label.font == "bold" else 0
        canvas = PillowImage.new("L", (round(1.2 * label.height_px * len(label.text)) + 20, round(3 * label.height_px)))
        ImageDraw.Draw(canvas).text((4, 4), label.text, 255, font, stroke_width=stroke)
        drawn = np.asarray(canvas, np.float32)
    else:
        face = cv2.FONT_HERSHEY_SIMPLEX if label.font == "strokes" else cv2.FONT_HERSHEY_COMPLEX
        scale = label.height_px / 21
        size = (round(3 * label.height_px), round(1.3 * label.height_px * len(label.text)) + 20)
        layer = np.zeros(size, np.uint8)
        thick = max(1, round(label.height_px / 10))
        drawn = cv2.putText(layer, label.text, (4, size[0] // 2), face, scale, 255, thick, cv2.LINE_AA).astype(
            np.float32
        )
    rows, columns = np.nonzero(drawn.max(axis=1))[0], np.nonzero(drawn.max(axis=0))[0]
    return drawn[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] / 255


def detector_label(image: Image, corner: tuple[int, int], score: float) -> tuple[Image, Image]:
    """What a polyp detector draws: a green frame with its class and score on a filled tab; with and without letters."""
    x, y = corner
    drawn = cv2.rectangle(image.copy(), (x, y), (x + 90, y + 70), (0, 220, 60), 2)
    label = Label(f"polyp {score:.2f}", 10, "strokes", (10, 10, 10))
    width, height = size_of(label)
    cv2.rectangle(drawn, (x, y - height - 8), (x + width + 8, y), (0, 220, 60), -1)
    return write(drawn, label, (x + 4, y - height - 4))[0], drawn


def mucosa(seed: int, width: int = 480, height: int = 400) -> Image:
    """A reddish wall with relief, vessels and highlights that fills the frame."""
    random = np.random.default_rng(seed)
    relief = sum(
        cv2.resize(
            random.normal(0, 26 / n, (4 * n, 5 * n)).astype(np.float32), (width, height), interpolation=cv2.INTER_CUBIC
        )
        for n in (1, 2, 5, 12, 30)
    )
    y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    light = 1 - 0.35 * np.hypot(x - random.uniform(-0.3, 0.3), y - random.uniform(-0.3, 0.3))
    color = np.array([random.uniform(165, 205), random.uniform(90, 120), random.uniform(70, 100)])
    image = color * light[..., None] + np.asarray(relief)[..., None] * np.array([0.8, 1.0, 0.9])
    image += random.normal(0, 2.5, image.shape)
    return np.clip(image, 0, 255).astype(np.uint8)


def glittering(seed: int, width: int = 560, height: int = 480) -> Image:
    """Mucosa full of highlights, on which faint letters are lost in a single frame."""
    random = np.random.default_rng(seed)
    image = mucosa(seed, width, height)
    for _ in range(260):
        x, y = random.integers(0, [width, height])
        a, b = random.integers(2, 9, 2)
        turn = float(random.uniform(0, 180))
        cv2.ellipse(image, (int(x), int(y)), (int(a), int(b)), turn, 0, 360, (250, 240, 235), -1, cv2.LINE_AA)
    return image


def opening(image: Image, center: tuple[float, float], radius_px: float, seed: int) -> Image:
    """A dark lumen or pylorus with a swollen, shining rim and a few folds around it."""
    random = np.random.default_rng(seed)
    height, width = image.shape[:2]
    y, x = np.mgrid[:height, :width]
    stretch, angle = random.uniform(0.45, 0.95), random.uniform(0, np.pi)
    u = (x - center[0]) * np.cos(angle) + (y - center[1]) * np.sin(angle)
    v = -(x - center[0]) * np.sin(angle) + (y - center[1]) * np.cos(angle)
    bent = 1 + 0.12 * np.sin(random.integers(3, 7) * np.arctan2(v, u) + random.uniform(0, 6))
    distance = np.hypot(u, v / stretch) / (radius_px * bent)
    hole = 1 / (1 + np.exp(-(distance - 1) * 7))
    rim = 55 * np.exp(-(((distance - 1.35) / 0.22) ** 2)) + 18 * np.exp(-(((distance - 2.0) / 0.2) ** 2))
    dark = np.array([28, 10, 8])
    return np.clip(dark + (image.astype(float) + rim[..., None] - dark) * hole[..., None], 0, 255).astype(np.uint8)


# Frames around a view


def octagon(view: Image, corner: float = 0.18) -> Image:
    """The view with its corners cut off, on black."""
    height, width = view.shape[:2]
    c = round(corner * height)
    corners = [
        (c, 0),
        (width - c, 0),
        (width, c),
        (width, height - c),
        (width - c, height),
        (c, height),
        (0, height - c),
        (0, c),
    ]
    mask = cv2.fillConvexPoly(np.zeros((height, width), np.uint8), np.array(corners, np.int32), 255)
    return np.asarray(cv2.bitwise_and(view, view, mask=mask), np.uint8)


GROUNDS: dict[str, Color] = {
    "white": (255, 255, 255),
    "grey": (192, 192, 196),
    "blue": (28, 60, 122),
    "teal": (58, 110, 112),
}


def recorder_screen(view: Image, ground: Color, seed: int) -> tuple[Image, Box]:
    """A recorder's screen with the view, a panel of patient data, thumbnails and a status line; and the view's box."""
    random = np.random.default_rng(seed)
    height, width = view.shape[:2]
    left, top = round(0.42 * width), round(0.12 * height)
    screen = np.full((round(1.3 * height), round(1.55 * width), 3), ground, np.uint8)
    screen[top : top + height, left : left + width] = view
    ink: Color = (20, 20, 20) if sum(ground) > 380 else (240, 240, 240)
    for line, text in enumerate(("Patient", "DOE, JANE", "ID: 482910", "12/03/2014", "Dr. NORDMANN")):
        screen, _ = write(screen, Label(text, 11, FONTS[seed % 4], ink), (12, top + 26 * line))
    for number in range(2):
        small = cv2.resize(view, (round(0.22 * width), round(0.22 * height)), interpolation=cv2.INTER_AREA)
        y = top + round((0.42 + 0.26 * number) * height)
        screen[y : y + small.shape[0], 12 : 12 + small.shape[1]] = small
    status = f"REC  00:{random.integers(10, 60)}:{random.integers(10, 60)}   1920x1080"
    screen, _ = write(screen, Label(status, 10, "plain", ink), (left, top + height + 10))
    return screen, (left, top, left + width, top + height)


def bordered(view: Image, color: Color, share: float) -> tuple[Image, Box]:
    """A plain border of one color around the view."""
    y, x = round(share * view.shape[0]), round(share * view.shape[1])
    framed = cv2.copyMakeBorder(view, y, y, x, x, cv2.BORDER_CONSTANT, value=color)
    return np.asarray(framed, np.uint8), (x, y, x + view.shape[1], y + view.shape[0])


def side_by_side(left: Image, right: Image, gap_px: int) -> Image:
    """Two views of one size in one frame, on black."""
    return np.hstack([left, np.zeros((left.shape[0], gap_px, 3), np.uint8), right])


def corner_label(view: Image, color: Color, seed: int) -> tuple[Image, Box]:
    """A label of one color that covers a corner of the frame and bites into the view."""
    height, width = view.shape[:2]
    text = Label(
        WORDS[seed % len(WORDS)],
        0.035 * height,
        FONTS[seed % 4],
        (15, 15, 15) if sum(color) > 300 else (235, 235, 235),
    )
    w, h = size_of(text)
    box = (0, 0, w + round(0.05 * width), h + round(0.12 * height))
    labeled = view.copy()
    labeled[box[1] : box[3], box[0] : box[2]] = color
    return write(labeled, text, (8, 0.05 * height))[0], box


# What is no endoscopy


def paper_report(seed: int) -> Image:
    """A photograph of a printed report on a table, a little askew and unevenly lit."""
    random = np.random.default_rng(seed)
    page = np.full((640, 460, 3), random.uniform(225, 252, 3).mean(), np.float32).astype(np.uint8)
    for line in range(random.integers(14, 24)):
        words = " ".join(
            random.choice(["findings", "colon", "normal", "biopsy", "Patient", "polyp 4 mm", "2014", "Dr."], 6)
        )
        page, _ = write(
            page, Label(words[: random.integers(18, 44)], 9, FONTS[seed % 2], (40, 40, 45)), (40, 60 + 24 * line)
        )
    cv2.rectangle(page, (36, 40), (424, 44), (60, 60, 60), -1)
    table = random.uniform([60, 45, 35], [170, 140, 120])
    ground = np.clip(table + random.normal(0, 6, (480, 640, 3)), 0, 255).astype(np.uint8)
    corners = np.array([[0, 0], [460, 0], [460, 640], [0, 640]], np.float32)
    away = np.array([[130, 10], [520, 10], [540, 490], [110, 490]]) + random.uniform(-25, 25, (4, 2))
    turn = cv2.getPerspectiveTransform(corners, away.astype(np.float32))
    inside = cv2.warpPerspective(np.full((640, 460), 255, np.uint8), turn, (640, 480))
    photo = np.where(inside[..., None] > 0, cv2.warpPerspective(page, turn, (640, 480)), ground)
    shade = np.linspace(random.uniform(0.65, 1), random.uniform(0.65, 1), 640)[None, :, None]
    warm = np.array([1.0, random.uniform(0.92, 1), random.uniform(0.8, 1)])
    noisy = photo * shade * warm + random.normal(0, 3, photo.shape)
    return np.clip(noisy, 0, 255).astype(np.uint8)


def binary_mask(seed: int) -> Image:
    """A segmentation mask: one or more blobs of one color on black."""
    random = np.random.default_rng(seed)
    color = [(255, 255, 255), (255, 255, 255), (255, 0, 0), (0, 255, 0), (128, 0, 0)][seed % 5]
    mask = np.zeros((400, 480, 3), np.uint8)
    for _ in range(random.integers(1, 4)):
        center, axes = random.integers(100, 340, 2), random.integers(60, 180, 2)
        cv2.ellipse(
            mask, [int(v) for v in center], [int(v) for v in axes], float(random.uniform(0, 180)), 0, 360, color, -1
        )
    return mask


def desktop_screen(seed: int) -> Image:
    """Windows with text, buttons and tables on a desktop of one color or a gradient."""
    random = np.random.default_rng(seed)
    ground = np.linspace(random.uniform(20, 200, 3), random.uniform(20, 200, 3), 480)[:, None] * np.ones((1, 640, 1))
    screen = ground.astype(np.uint8)
    for _ in range(random.integers(1, 4)):
        x, y = int(random.integers(0, 200)), int(random.integers(0, 140))
        w, h = int(random.integers(280, 420)), int(random.integers(220, 330))
        bright = int(random.choice([245, 255, 236, 40]))
        cv2.rectangle(screen, (x, y), (x + w, y + h), (bright, bright, bright), -1)
        cv2.rectangle(screen, (x, y), (x + w, y + 22), tuple(int(v) for v in random.integers(30, 220, 3)), -1)
        ink: Color = (30, 30, 30) if bright > 128 else (220, 220, 220)
        for line in range(h // 22 - 2):
            words = " ".join(
                random.choice(["file", "edit", "view", "Patient list", "12/03/2014", "export", "0.88", "OK"], 6)
            )
            screen, _ = write(screen, Label(words[: w // 9], 8, "plain", ink), (x + 10, y + 32 + 20 * line))
    cv2.rectangle(screen, (0, 452), (640, 480), tuple(int(v) for v in random.integers(20, 90, 3)), -1)
    return screen


def landscape(seed: int) -> Image:
    """Sky, clouds, hills and a meadow."""
    random = np.random.default_rng(seed)

    def cloud(roughness: float) -> NDArray[np.float32]:
        parts = [
            cv2.resize(
                random.normal(0, 1 / n**roughness, (3 * n, 4 * n)).astype(np.float32),
                (640, 480),
                interpolation=cv2.INTER_CUBIC,
            )
            for n in (1, 2, 4, 8, 16, 32)
        ]
        return np.asarray(sum(parts), np.float32)

    sky = np.linspace(random.uniform([70, 120, 190], [110, 160, 235]), [200, 215, 230], 480)[:, None] * np.ones(
        (1, 640, 1)
    )
    sky += np.clip(cloud(1.0), 0, 1)[..., None] * 70
    image = np.clip(sky, 0, 255)
    y = np.arange(480)[:, None]
    for depth, color in enumerate([(95, 115, 120), (70, 100, 60), (95, 130, 50)]):
        ridge = 200 + 80 * depth + 28 * np.cumsum(random.normal(0, 1, 640)) / 12
        grass = np.array(color) + 16 * cloud(0.4)[..., None] + random.normal(0, 8, (480, 640, 1))
        image = np.where((y > ridge)[..., None], grass, image)
    return np.clip(image, 0, 255).astype(np.uint8)


FOREIGN: dict[str, Callable[[int], Image]] = {
    "paper report": paper_report,
    "mask": binary_mask,
    "desktop screen": desktop_screen,
    "landscape": landscape,
}
