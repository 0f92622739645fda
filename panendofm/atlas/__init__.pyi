from .boxes_json import box_file, boxes_fit, listed_boxes
from .build import (
    Atlas,
    Row,
    alike_conflicts,
    build_atlas,
    conflicts,
    contradict,
    load_atlas,
    overlaps,
    save_atlas,
)
from .config import NEAR_DUPLICATE_BITS, AtlasConfig, GallerySplitConfig, SplitConfig
from .corpora import (
    CORPORA,
    OVERLAPS_BETWEEN_CORPORA,
    OVERLAPS_WITH_EVALUATION,
    Overlap,
    datasets_seen,
    nearest_name,
    same_name,
)
from .gallery_split import GallerySplit, load_or_make_gallery_split
from .groups import content_groups, image_groups
from .labeled_images import Keys, LabeledImage, LabeledImages, read_labeled_images
from .layouts import Item, read_table_of_files
from .mapping import Mapping, load_mappings
from .measurements import measure_all
from .official import Crossing, has_official_split, official_split
from .overlap import overlapping
from .regions import (
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
from .samples import Sample, custom_samples, group_numbers, samples_of
from .split import SPLITS, TEST, TRAIN, VALIDATION, Split, load_split, make_split, save_split, split_path
from .taxonomy import AMBIGUOUS, Label, Taxonomy, load_taxonomy

__all__ = [
    "AMBIGUOUS",
    "CORPORA",
    "NEAR_DUPLICATE_BITS",
    "OVERLAPS_BETWEEN_CORPORA",
    "OVERLAPS_WITH_EVALUATION",
    "SPLITS",
    "TEST",
    "TRAIN",
    "VALIDATION",
    "Atlas",
    "AtlasConfig",
    "Box",
    "Crossing",
    "GallerySplit",
    "GallerySplitConfig",
    "Item",
    "Keys",
    "Label",
    "LabeledImage",
    "LabeledImages",
    "Mapping",
    "Overlap",
    "Region",
    "Regions",
    "Row",
    "Sample",
    "Split",
    "SplitConfig",
    "Taxonomy",
    "alike_conflicts",
    "box_file",
    "boxes_fit",
    "build_atlas",
    "conflicts",
    "content_groups",
    "contradict",
    "custom_samples",
    "datasets_seen",
    "group_numbers",
    "has_official_split",
    "has_regions",
    "image_groups",
    "listed_boxes",
    "load_atlas",
    "load_mappings",
    "load_or_make_gallery_split",
    "load_split",
    "load_taxonomy",
    "make_split",
    "mask_components",
    "mask_files",
    "measure_all",
    "nearest_name",
    "official_split",
    "overlapping",
    "overlaps",
    "read_labeled_images",
    "read_mask",
    "read_regions",
    "read_table_of_files",
    "same_name",
    "samples_of",
    "save_atlas",
    "save_regions",
    "save_split",
    "split_path",
]
