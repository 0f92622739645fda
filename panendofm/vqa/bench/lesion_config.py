"""The settings of a bench with five questions about one lesion (GI-Bench)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from panendofm.runtime.config import option
from panendofm.runtime.errors import UserError

QUESTIONS = ("Q1", "Q2", "Q3", "Q4", "Q5")
NEGATIVE = "none"  # the class of pictures without a lesion


@dataclass
class LesionClass:
    """A lesion that may be asked for."""

    name: str = option("What options call it.", "")
    site: str = option("Key of its site, one of lesions.sites.", "")
    findings: list[str] = option("Findings of the taxonomy that count as it, each with /grade where one is meant.", [])


@dataclass
class LesionTexts:
    """The wordings, in the language of the profile."""

    system: str = option("System message.", "")
    q1: str = option("Where is it?", "")
    q2: str = option("Its box; {width} and {height} are the picture's.", "")
    q2_people: str = option("The same for people, who draw the box.", "Draw a box around the lesion.")
    q3: str = option("What is it?", "")
    q4: str = option("Findings, as a text.", "")
    q5: str = option("Advice, as a text.", "")
    none: str = option("The option that there is no lesion.", "none")
    disclaimer: str = option("Closing line that texts are asked for; it is cut off before they are rated.", "")


@dataclass
class LesionConfig:
    classes: list[LesionClass] = option("The lesions; those without pictures are left out.", [])
    sites: dict[str, str] = option("Sites, in the order of Q1's options: key and name.", {})
    site_of_region: dict[str, str] = option("Site of each region of the taxonomy.", {})
    texts: LesionTexts = field(default_factory=LesionTexts)
    per_class: int = option("Most pictures of a class.", 50)
    considered_per_class: int = option("Pictures of a class, drawn by hash, among which they are chosen.", 1000)
    negatives: int = option("Most pictures without a lesion, for specificity.", 50)
    negative_findings: list[str] = option("Findings, beside normal ones, of pictures without a lesion.", [])
    human_per_class: int = option("Pictures of each class that people answer too.", 3)
    q3_options: Literal["all", "region"] = option("all lesions, or (as in the paper) those of the own site.", "all")
    several_boxes: Literal["leave_out", "union"] = option(
        "A lesion in several boxes: leave_out asks for no box, union scores against the merged area.", "leave_out"
    )

    def check(self) -> None:
        for lesion in self.classes:
            if not lesion.name or not lesion.findings or lesion.site not in self.sites:
                raise UserError(f"lesions.classes: '{lesion.name}' needs a name, findings and a site of lesions.sites.")
        if len(self.classes) > 25:
            raise UserError("lesions.classes: letters end at Z, so that 25 lesions and «none» are the most.")
