"""Release folders: the weights in each format, a model card, and checksums; written whole or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from panendofm.backbone.command_config import ExportConfig
from panendofm.backbone.config import architecture_name
from panendofm.backbone.release.check import check_format, photographs
from panendofm.backbone.release.formats import (
    WRITERS,
    Export,
    package_versions,
    rounded,
    with_position_grid,
    write_root,
)
from panendofm.backbone.release.model_card import model_card
from panendofm.backbone.release.origin import source_of
from panendofm.backbone.release.signature import sign
from panendofm.backbone.release.start import averaged_with_start, refuse_worse_than_start, run_of_source
from panendofm.backbone.weights.load import LoadedBackbone, load_backbone, read_header, weights_checksum
from panendofm.backbone.weights.weight_files import safetensors_metadata
from panendofm.records.release import WEIGHTS_FILES, ReleaseFolder, ReleaseInfo, certificate_checksum, is_graph
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_directory, write_checksums, write_text


def export_release(source: Path | str, config: ExportConfig) -> ReleaseInfo:
    """Write a release folder of the backbone at `source`, check every format in it, and return its description.

    With `average_with_start`, its weights are averaged with those that its run began with (`start` names others). What
    kNN has found to be worse than the start is refused, unless that is allowed.
    """
    unknown = [kind for kind in config.formats if kind not in WRITERS]
    if unknown or not config.formats:
        raise UserError(f"formats: '{', '.join(unknown)}' is not one of {', '.join(WRITERS)}.")
    out = Path(config.out)
    loaded = load_backbone(source, role=config.role)
    if not config.allow_worse_than_start:
        refuse_worse_than_start(loaded)
    if config.average_with_start:
        loaded = averaged_with_start(loaded, config.average_with_start, config.start)
    model = loaded.model if config.image_px is None else with_position_grid(loaded.model, config.image_px)
    certificate = certificate_checksum(loaded.certificate)
    export = Export(rounded(model, config.dtype), loaded.preprocessing, config.dtype, certificate)
    if loaded.preprocessing.crop_px % export.config.patch_px:
        raise UserError(
            f"the pre-processing's crop of {loaded.preprocessing.crop_px} pixels does not divide into patches of "
            f"{export.config.patch_px}; train or export with a crop that does."
        )
    images = photographs([Path(image) for image in config.check_images])
    with atomic_directory(out) as path:
        folder = ReleaseFolder(path)
        checked = {}
        for kind in config.formats:
            WRITERS[kind](export, folder)
        write_root(export, folder, config.formats)
        for kind in config.formats:
            checked[kind] = check_format(kind, folder, export, images)
            differences = ", ".join(f"{difference:.1e} {place}" for place, difference in checked[kind].items())
            say(f"{kind}: written, loaded back, largest relative difference {differences.replace('at_', 'at ')}")
        release = _describe(loaded, export, folder, checked, config)
        folder.write(release)
        write_text(folder.model_card, model_card(release, export, run_of_source(loaded)))
        names = [p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file()]
        write_checksums(path, names, folder.checksums.name)
        if config.sign is not None:
            sign(folder, Path(config.sign))
    say(f"release {out}: {', '.join(release.weights)} ({release.architecture}, {config.dtype})")
    return release


def _values_sha256(file: Path) -> str:
    """As its header says; that this is true was checked when it was loaded back."""
    return str(read_header(safetensors_metadata(file), file)["weights_sha256"])


def _describe(
    loaded: LoadedBackbone,
    export: Export,
    folder: ReleaseFolder,
    checked: dict[str, dict[str, float]],
    config: ExportConfig,
) -> ReleaseInfo:
    vit = replace(export.config, drop_path=0.0)
    return ReleaseInfo(
        name=config.name or Path(config.out).name,
        architecture=architecture_name(vit),
        vit=vit.to_dict(),
        preprocessing=export.preprocessing.to_dict(),
        dtype=export.dtype,
        weights={kind: WEIGHTS_FILES[kind] for kind in checked},
        weights_sha256=weights_checksum(vit, export.model.state_dict()),
        source=source_of(loaded, config.start_note, config.data_note),
        license=config.license,
        certificate=loaded.certificate,
        certificate_sha256=export.certificate_sha256,
        values_sha256={kind: _values_sha256(folder.weights(kind)) for kind in checked if not is_graph(kind)},
        checked=checked,
        checked_with=package_versions(),
    )
