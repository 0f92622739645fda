"""What the verbs of `panendofm atlas` do."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from panendofm.atlas.build import build_atlas
from panendofm.atlas.config import AtlasConfig, CodesConfig, ExportConfig, ImportConfig, ListConfig, SplitConfig
from panendofm.atlas.datasets.codes import codes_file, write_template
from panendofm.atlas.datasets.layouts import count_codes, find_datasets, read_items
from panendofm.atlas.datasets.mapping import Mapping, load_mappings
from panendofm.atlas.release.export import export_atlas
from panendofm.atlas.release.restore import restore_atlas
from panendofm.atlas.report.tables import catalog_table, contradictions_of_table_one
from panendofm.atlas.report.write import say_report, write_atlas
from panendofm.atlas.samples import samples_of
from panendofm.atlas.split import make_split
from panendofm.runtime.console import say, table
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory


def run_atlas(roots: list[str], config: AtlasConfig) -> None:
    out = Path(config.out)
    extra = _extra(config.mappings)
    atlas = build_atlas(roots, config.near_duplicate_bits, extra, config.codes, config.quality)
    samples = samples_of(atlas.rows)
    split = make_split(samples, SplitConfig(seed=config.seed))
    mappings = _used_mappings(roots, extra, config.codes)
    report = write_atlas(atlas, samples, split, out, mappings, config.tasks)
    say_report(report)
    files = f"report: {out.with_suffix('.json')}, page: {out.with_suffix('.html')}"
    say(f"{len(atlas.rows)} images ({len(samples)} different) → {out}; {files}")


def _extra(folder: str | None) -> Path | None:
    extra = Path(folder) if folder else None
    if extra is not None and not extra.is_dir():
        raise UserError(f"mappings={extra}: there is no such folder.")
    return extra


def _used_mappings(roots: list[str], extra: Path | None, codes: dict[str, str]) -> dict[str, Mapping]:
    known = load_mappings(extra)
    return known | {found.mapping.dataset: found.mapping for found in find_datasets(roots, known, codes)}


def run_list(config: ListConfig) -> None:
    mappings = load_mappings(_extra(config.mappings))
    content = catalog_table(mappings)
    table("datasets", list(content.columns), [[str(cell) for cell in row] for row in content.rows])
    for sentence in contradictions_of_table_one(mappings):
        say(f"The PanEndoAtlas paper: {sentence} (docs/explanation/source-errata.md)")
    tested = sum(mapping.about is not None and mapping.about.real_files for mapping in mappings.values())
    say(f"{len(mappings)} datasets; the layouts of {tested} were checked on real files.")


def run_codes(roots: list[str], config: CodesConfig) -> None:
    folder = make_directory(config.out)
    images: dict[str, Counter[str]] = {}
    mappings: dict[str, Mapping] = {}
    for found in find_datasets(roots, load_mappings(_extra(config.mappings))):
        if found.mapping.codes is not None:
            items, _ = read_items(found)
            images.setdefault(found.mapping.dataset, Counter()).update(count_codes(items, found.mapping))
            mappings[found.mapping.dataset] = found.mapping
    if not mappings:
        raise UserError(f"{', '.join(roots)}: none of the datasets there takes a table of codes.")
    for name, mapping in mappings.items():
        path = folder / codes_file(mapping)
        missing = write_template(path, mapping, images[name])
        what = "" if mapping.codes is None else f" A code is {mapping.codes.what}."
        say(f"{path}: {len(images[name])} codes, {missing} without a meaning.{what}")


def run_export(atlas: Path, config: ExportConfig) -> None:
    number = export_atlas(atlas, Path(config.out), config.name, config.version)
    say(f"{number} images → {config.out}: images.csv, croissant.json, DATASHEET.md, split.parquet")


def run_import(release: Path, roots: list[str], config: ImportConfig) -> None:
    extra = _extra(config.mappings)
    restored = restore_atlas(release, roots, extra)
    out = Path(config.out)
    mappings = _used_mappings(roots, extra, {})
    write_atlas(restored.atlas, restored.samples, restored.split, out, mappings, "clean")
    restored.say()
    say(f"{len(restored.atlas.rows)} of {restored.images} images → {out}")
