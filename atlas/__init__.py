"""The atlas: public endoscopy datasets under one taxonomy of four levels, and what corpora and datasets share."""

from atlas.box_file import box_file, boxes_fit, listed_boxes
from atlas.build import (
    NEAR_DUPLICATE_BITS,
    Atlas,
    Row,
    alike_conflicts,
    build_atlas,
    conflicts,
    content_groups,
    load_atlas,
    overlaps,
    save_atlas,
)
from atlas.corpora import (
    CORPORA,
    OVERLAPS_BETWEEN_CORPORA,
    OVERLAPS_WITH_EVALUATION,
    Overlap,
    datasets_seen,
    nearest_name,
    same_name,
)
from atlas.layouts import Item, read_table_of_files
from atlas.mapping import Mapping, load_mappings
from atlas.pictures import measure_all
from atlas.regions import (
    Box,
    Region,
    Regions,
    has_regions,
    mask_components,
    mask_files,
    read_mask,
    read_regions,
    save_regions,
)
from atlas.taxonomy import AMBIGUOUS, Label, Taxonomy, load_taxonomy

__all__ = [
    "AMBIGUOUS",
    "CORPORA",
    "NEAR_DUPLICATE_BITS",
    "OVERLAPS_BETWEEN_CORPORA",
    "OVERLAPS_WITH_EVALUATION",
    "Atlas",
    "Box",
    "Item",
    "Label",
    "Mapping",
    "Overlap",
    "Region",
    "Regions",
    "Row",
    "Taxonomy",
    "alike_conflicts",
    "box_file",
    "boxes_fit",
    "build_atlas",
    "conflicts",
    "content_groups",
    "datasets_seen",
    "has_regions",
    "listed_boxes",
    "load_atlas",
    "load_mappings",
    "load_taxonomy",
    "mask_components",
    "mask_files",
    "measure_all",
    "nearest_name",
    "overlaps",
    "read_mask",
    "read_regions",
    "read_table_of_files",
    "same_name",
    "save_atlas",
    "save_regions",
]
