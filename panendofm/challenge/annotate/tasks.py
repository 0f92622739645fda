"""The verb `tasks`: open work of the log → tasks for CVAT, Label Studio or LabelMe, with what is known drawn in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from panendofm.challenge.annotate.acts import TOOLS, read_act_mask
from panendofm.challenge.annotate.shapes import DECISION, NOTHING, SERIAL, UNDECIDED, Shape, Task, TaskSet
from panendofm.challenge.config import TasksConfig
from panendofm.challenge.files.annotations import Act, Log, read_log
from panendofm.challenge.files.finding_model import Frame
from panendofm.challenge.files.findings import kind_of, read_findings
from panendofm.challenge.files.mask_files import finding_mask
from panendofm.challenge.files.names import Key, image_name
from panendofm.challenge.waiting import candidates_waiting
from panendofm.imaging.images import is_image, open_image
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory
from panendofm.runtime.names import printable

Shapes = Mapping[Key, Sequence[Shape]]


def tasks(path: Path, config: TasksConfig) -> TaskSet:
    """Tasks for every image that waits for the step; for the first step those that the log does not have."""
    log = read_log(path, may_be_empty=True) if path.exists() else None
    images = _images(Path(config.images))
    sizes = {key: open_image(image).size for key, image in images.items()}
    if config.step == "independent":
        shapes: Shapes = _candidates(config, images, sizes)
        wanted = list(images)
    else:
        if log is None:
            raise UserError(f"cannot read {path}: there is no such log; make one with 'challenge merge'.")
        shapes = _open(log, config.step)
        wanted = list(shapes)
    _refuse_unknown(path, shapes, images)
    named = {shape.category for own in shapes.values() for shape in own}
    named |= {act.category for act in log.acts} if log else set()
    labels = sorted({*config.classes, *named} - {""})
    if not labels:
        raise UserError("tasks need labels, and nothing names one yet; name them with classes=[…].")
    found = TaskSet(
        labels=(*labels, NOTHING),
        tasks=tuple(Task(images[key].name, sizes[key], tuple(shapes.get(key, ()))) for key in wanted),
        decides=config.step == "review",
        image_url=config.image_url,
    )
    if not found.tasks:
        say(f"nothing waits for the step {config.step}: no task written")
        return found
    paths = TOOLS[config.tool].write(make_directory(Path(config.out)), found)
    drawn = sum(len(task.shapes) for task in found.tasks)
    say(f"{len(found.tasks)} images for {config.tool}, {drawn} shapes drawn in: {', '.join(map(str, paths[:3]))}")
    return found


def _images(folder: Path) -> dict[Key, Path]:
    if not folder.is_dir():
        raise UserError(f"cannot read {folder}: it is no folder; name the folder of the images with images=….")
    found: dict[Key, Path] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and is_image(path):
            key = image_name(path.name, "stem"), 0
            if key in found:
                raise UserError(f"{path}: {found[key]} has the same name; names of images must be unique.")
            found[key] = path
    if not found:
        raise UserError(f"{folder}: there are no images in it; name the folder of the images with images=….")
    return found


def _refuse_unknown(path: Path, shapes: Shapes, images: Mapping[Key, Path]) -> None:
    for name, frame in shapes:
        if frame:
            raise UserError(f"{path}: {printable(name)} is a video; write its frames as images first.")
        if (name, frame) not in images:
            raise UserError(f"{path}: there is no image {printable(name)} in images=…; name the right folder.")


def _candidates(config: TasksConfig, images: Mapping[Key, Path], sizes: Mapping[Key, tuple[int, int]]) -> Shapes:
    """Boxes or masks of a system, for the doctors to correct."""
    if config.candidates is None:
        return {}
    path = Path(config.candidates)
    kind = kind_of(path)
    if kind not in ("detection", "segmentation"):
        raise UserError(f"{path}: it holds {kind}; boxes or masks can be drawn in.")
    file = read_findings(path, "prediction", kind)

    def shape(frame: Frame, key: Key, number: int) -> Shape:
        finding = frame.findings[number]
        mask = None if finding.box is not None else finding_mask(file, finding, sizes.get(key))
        return Shape(finding.category, finding.box, mask=mask)

    return {
        key: [shape(frame, key, n) for n, f in enumerate(frame.findings) if f.confidence >= config.confidence]
        for key, frame in file.frames.items()
    }


def _open(log: Log, step: str) -> dict[Key, list[Shape]]:
    """Candidates that wait; for an arbitration all that the doctors drew, under the candidate's serial."""
    by_serial = {act.serial: act for act in log.acts}
    found: dict[Key, list[Shape]] = {}
    for candidate in candidates_waiting(log, step):
        own = found.setdefault(candidate.key, [])
        notes = {SERIAL: candidate.serial, **({DECISION: UNDECIDED} if step == "review" else {})}
        if step == "review":
            own.append(_shape(log, candidate, notes))
            continue
        # Labels that differ are not drawn in: the arbiter chooses one.
        own += [_shape(log, by_serial[s], notes) for s in candidate.sources if by_serial[s].box or by_serial[s].mask]
    return found


def _shape(log: Log, act: Act, notes: Mapping[str, str]) -> Shape:
    return Shape(act.category, act.box, mask=read_act_mask(log, act) if act.mask else None, notes=notes)
