"""The keys of the verbs that make, change and export a bench."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from panendofm.imaging.frame_filters.config import FieldOfViewConfig, QualityConfig
from panendofm.runtime.config import option, required
from panendofm.runtime.console import warn
from panendofm.runtime.errors import UserError
from panendofm.vqa.client.config import ApiConfig

_OTHER_TEXTS = ("system", "none", "disclaimer")
_MOST_LESIONS = 25  # letters end at Z, and one is for «none»


@dataclass
class DistractorConfig:
    """What a wrong box must be like."""

    min_size_factor: float = option("Width and height are at least this many times those of the true box.", 0.8)
    max_size_factor: float = option("And at most this many times.", 1.25)
    max_iou_with_truth: float = option("Overlap with any true box of the same name.", 0.1)
    max_iou_between: float = option("Overlap among wrong boxes.", 0.2)
    min_share_in_view: float = option("Share inside the field of view: a box on the border gives itself away.", 0.95)
    tries: int = option("Draws for each box; when none fits, no question is made.", 200)


@dataclass
class ImageConfig:
    """What an image must be like, and how it is sent."""

    longest_side_px: int = option("Longer images are scaled down to this.", 1024)
    crop: bool = option("Cut the black border off.", True)
    min_short_side_px: int = option("Smaller originals are left out.", 200)
    min_region_px: int = option("Boxes with a shorter side, as sent, are left out.", 16)
    field_of_view: FieldOfViewConfig = field(default_factory=FieldOfViewConfig)
    quality: QualityConfig = field(default_factory=QualityConfig)


@dataclass
class LesionClass:
    """A lesion that may be asked for."""

    name: str = option("What options call it.", "")
    site: str = option("Key of its site, one of lesions.sites.", "")
    findings: list[str] = option("Findings of the taxonomy that count as it, each with /grade where one is meant.", [])


@dataclass
class LesionConfig:
    """Images with exactly one lesion, and the questions about it."""

    classes: list[LesionClass] = option("The lesions; those without images are left out.", [])
    sites: dict[str, str] = option("Sites, in the order of the options: key and name.", {})
    site_of_region: dict[str, str] = option("Site of each region of the taxonomy.", {})
    texts: dict[str, str] = option(
        "Wordings, by code of the question type in lower case ({width} and {height} are the image's); CODE_people is "
        "for people. Beside them: system (the system message), none (the option without a lesion) and disclaimer (a "
        "closing line that texts are asked for; it is cut off before they are rated).",
        {},
    )
    language: str = option("Language of the texts; the paper's prompts are stored in it too.", "en")
    per_class: int = option("Most images of a class.", 50)
    considered_per_class: int = option("Images of a class, drawn by hash, among which they are chosen.", 1000)
    negatives: int = option("Most images without a lesion, for specificity.", 50)
    negative_findings: list[str] = option("Findings, beside normal ones, of images without a lesion.", [])
    human_per_class: int = option("Images of each class that people answer too.", 3)
    diagnosis_options: Literal["all", "region"] = option(
        "all lesions, or (as in the paper) those of the own site.", "all", was="q3_options"
    )
    several_boxes: Literal["leave_out", "union"] = option(
        "A lesion in several boxes: leave_out asks for no box, union scores against the merged area.", "leave_out"
    )

    def check(self) -> None:
        for lesion in self.classes:
            if not lesion.name or not lesion.findings or lesion.site not in self.sites:
                raise UserError(f"lesions.classes: '{lesion.name}' needs a name, findings and a site of lesions.sites.")
        if len(self.classes) > _MOST_LESIONS:
            raise UserError(f"lesions.classes: letters end at Z, so that {_MOST_LESIONS} lesions and «none» are most.")


@dataclass
class BuildConfig:
    """Questions from an atlas."""

    data: str = required("The atlas (atlas.parquet, written by 'panendofm atlas').")
    out: str = required("Folder of the new bench; it must not exist.")
    benchmark: str = option("Which benchmark to rebuild, such as endobench or gi_bench.", "endobench", was="profile")
    name: str = option("What the bench is called.", "endobench")
    references: str = option(
        "JSONL of reference texts: id (sha256 or file name), author, and a text for each code.", ""
    )
    regions: str = option("Regions besides those of the datasets: a JSONL list or a folder of LabelMe files.", "")
    all_regions_listed: bool = option("The list of regions names every polyp of an image: they may be counted.", False)
    annotations: str = option("JSONL of operations: file, operation, phase, step, action, instruments.", "")
    operations: list[str] = option("Folders of public datasets of operations: Cholec80, EndoVis, PSI-AVA.", [])
    network: str = option("Network whose features choose the images; 'pixels' needs none.", "pixels", was="weights")
    device: str | None = option("Where the network runs; auto takes a GPU when there is one.", "auto")
    cache: str = option("Folder of extracted features; empty: that of the user.", "")
    seed: int = option("Another seed gives other choices, wordings and distractors.", 0)
    tasks: list[str] = option("Tasks or question types to build; empty for all.", [])
    cap: int = option("Most questions of one entity in a question type.", 50, low=1)
    caps: dict[str, int] = option("The same for single question types.", {"LS": 40}, low=1)
    human_questions: int = option(
        "Questions that people answer too, drawn from all types without coordinates; the paper has 255.", 0, low=0
    )
    human_most_per_type: int = option("Most of these of one question type.", 15, low=5)
    questions_per_subtask: int | None = option("Most questions of a type; null: as many as the caps allow.", None)
    state_size: bool = option("Questions with coordinates say how large the image is.", True)
    templates: str = option("YAML file with other wordings.", "")
    review: str = option("CSV of physicians' decisions to apply.", "")
    images: ImageConfig = option("What an image must be like.", ImageConfig(), was="pictures")
    distractors: DistractorConfig = field(default_factory=DistractorConfig)
    lesions: LesionConfig = field(default_factory=LesionConfig)

    def check(self) -> None:
        from panendofm.vqa.benchmark import find_benchmark  # declarations bring SciPy, which --help does without

        known = find_benchmark(self.benchmark).questions
        names = dict.fromkeys([*(question.task for question in known), *(question.code for question in known)])
        for name in self.tasks:
            if name not in names:
                raise UserError(f"tasks: there is no '{name}'; there are: {', '.join(names)}.")
        wordings = [f"{question.code.lower()}{ending}" for question in known for ending in ("", "_people")]
        for name in self.lesions.texts:
            if name not in (*wordings, *_OTHER_TEXTS):
                there = ", ".join((*wordings, *_OTHER_TEXTS))
                warn(f"lesions.texts: nothing is worded by '{name}'; there are: {there}.")


@dataclass
class InstructConfig(BuildConfig):
    """Conversations to train on, apart from benches. Everything is asked: caps and people play no part."""

    bench: list[str] = option("Benches whose images, patients and videos stay out.", [])
    guard: list[str] = option("Folders of images that stay out too, with what looks like them.", [])

    def check(self) -> None:
        super().check()
        if not self.bench and not self.guard:
            raise UserError("name what must stay out: bench=[DIR] or guard=[DIR].")


@dataclass
class ColumnsConfig:
    """Names of the columns; empty: none."""

    task: str = option("Task.", "category")
    subtask: str = option("Question type.", "subtask")
    category: str = option("Category of the task.", "l2-category")
    scene: str = option("Scene (GS, CS, CE, SE, or any word).", "scene")
    prompt_kind: str = option("Kind of visual prompt.", "prompt_kind")
    dataset: str = option("Dataset of the image.", "dataset")
    group: str = option("Patient, video or other group.", "group")
    entity: str = option("What the answer is about.", "entity")


@dataclass
class ImportConfig:
    """A bench from a TSV file."""

    out: str = required("Folder of the new bench; it must not exist.")
    name: str = option("What the bench is called; empty: the file's name.", "")
    human_questions: int = option("Questions that people answer too; the paper has 255.", 0, low=0)
    human_most_per_type: int = option("Most of these of one question type.", 15, low=5)
    seed: int = option("Another seed draws other questions for people.", 0)
    columns: ColumnsConfig = field(default_factory=ColumnsConfig)


@dataclass
class ExportConfig:
    """A bench for other tools."""

    out: str = required("Folder to write; it must not exist.")
    form: Literal["huggingface", "vlmevalkit", "lmms-eval", "jsonl"] = option("Who is to read it.", "huggingface")


@dataclass
class ReviewConfig:
    """A page for physicians."""

    out: str = option("Page to write.", "review.html")


@dataclass
class RephraseConfig:
    """A bench whose questions are worded anew."""

    out: str = required("Folder of the new bench; it must not exist.")
    max_tokens: int = option("Room for a new wording.", 256)
    api: ApiConfig = field(default_factory=ApiConfig)

    def check(self) -> None:
        if not self.api.url or not self.api.model:
            raise UserError("api.url and api.model name the model that words the questions anew; set both.")
