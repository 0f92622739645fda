"""Release folders: the weights in each format, a model card, and checksums; written whole or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

from panendofm.backbone.config import architecture_name
from panendofm.backbone.release.check import check_format, photographs
from panendofm.backbone.release.formats import DTYPES, WRITERS, Export, package_versions, rounded, with_position_grid
from panendofm.backbone.release.model_card import model_card
from panendofm.backbone.release.origin import source_of
from panendofm.backbone.release.signature import sign
from panendofm.backbone.release.start import averaged_with_start, refuse_worse_than_start, run_of_source
from panendofm.backbone.weights.load import LoadedBackbone, Role, load_backbone, read_header, weights_checksum
from panendofm.backbone.weights.weight_files import safetensors_metadata
from panendofm.records.release import WEIGHTS_FILES, ReleaseFolder, ReleaseInfo, certificate_checksum
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_directory, write_checksums, write_text


def export_release(
    source: Path | str,
    to: Path | str,
    formats: tuple[str, ...] = tuple(WRITERS),
    dtype: str = "float32",
    name: str | None = None,
    licence: str | None = None,
    image_px: int | None = None,
    role: Role = "teacher",
    check_images: tuple[Path, ...] = (),
    start_share: float = 0.0,
    start: Path | str | None = None,
    allow_worse_than_start: bool = False,
    signing_key: Path | str | None = None,
    start_note: str | None = None,
    data_note: str | None = None,
) -> ReleaseInfo:
    """Write a release folder of the backbone at `source`, check every format in it, and return its description.

    With `start_share`, its weights are averaged with those that its run began with (`start` names others). What kNN has
    found to be worse than the start is refused, unless that is allowed. `signing_key` is an ssh key to sign it with.
    `start_note` and `data_note` go into the card: what the weights that training began with and its pictures are.
    """
    _check_choices(formats, dtype, role)
    to = Path(to)
    loaded = load_backbone(source, role=role)
    if not allow_worse_than_start:
        refuse_worse_than_start(loaded)
    if start is not None and not start_share:
        raise UserError(f"--start {start}: say by --average-with-start how much of it is mixed in, or leave it out.")
    if start_share:
        loaded = averaged_with_start(loaded, start_share, start)
    model = loaded.model if image_px is None else with_position_grid(loaded.model, image_px)
    export = Export(rounded(model, dtype), loaded.preprocessing, dtype, certificate_checksum(loaded.certificate))
    if loaded.preprocessing.crop_px % export.config.patch_px:
        raise UserError(
            f"the pre-processing's crop of {loaded.preprocessing.crop_px} pixels does not divide into patches of "
            f"{export.config.patch_px}; train or export with a crop that does."
        )
    images = photographs(list(check_images))
    with atomic_directory(to) as path:
        folder = ReleaseFolder(path)
        checked = {}
        for kind in formats:
            WRITERS[kind](export, folder)
            checked[kind] = check_format(kind, folder, export, images)
            figures = ", ".join(f"{difference:.1e} {place}" for place, difference in checked[kind].items())
            say(f"{kind}: written, loaded back, largest relative difference {figures.replace('at_', 'at ')}")
        release = _describe(loaded, export, folder, name or to.name, licence, checked, start_note, data_note)
        folder.write(release)
        write_text(folder.model_card, model_card(release, export, run_of_source(loaded)))
        names = [p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file()]
        write_checksums(path, names, folder.checksums.name)
        if signing_key is not None:
            sign(folder, Path(signing_key))
    say(f"release {to}: {', '.join(release.weights)} ({release.architecture}, {dtype})")
    return release


def _check_choices(formats: tuple[str, ...], dtype: str, role: str) -> None:
    unknown = [kind for kind in formats if kind not in WRITERS]
    if unknown or not formats:
        raise UserError(f"--format: '{', '.join(unknown)}' is not one of {', '.join(WRITERS)}.")
    if dtype not in DTYPES:
        raise UserError(f"--dtype: '{dtype}' is not one of {', '.join(DTYPES)}.")
    if role not in get_args(Role):
        raise UserError(f"--role: '{role}' is not one of {', '.join(get_args(Role))}.")


def _values_sha256(file: Path) -> str:
    """As its header says; that this is true was checked when it was loaded back."""
    return str(read_header(safetensors_metadata(file), file)["weights_sha256"])


def _describe(
    loaded: LoadedBackbone,
    export: Export,
    folder: ReleaseFolder,
    name: str,
    licence: str | None,
    checked: dict[str, dict[str, float]],
    start_note: str | None,
    data_note: str | None,
) -> ReleaseInfo:
    config = replace(export.config, drop_path=0.0)
    return ReleaseInfo(
        name=name,
        architecture=architecture_name(config),
        vit=config.to_dict(),
        preprocessing=export.preprocessing.to_dict(),
        dtype=export.dtype,
        weights={kind: WEIGHTS_FILES[kind] for kind in checked},
        weights_sha256=weights_checksum(config, export.model.state_dict()),
        source=source_of(loaded, start_note, data_note),
        licence=licence,
        certificate=loaded.certificate,
        certificate_sha256=export.certificate_sha256,
        values_sha256={kind: _values_sha256(folder.weights(kind)) for kind in checked if kind != "onnx"},
        checked=checked,
        checked_with=package_versions(),
    )
