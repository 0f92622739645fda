"""Free texts: their ratings, how judge and experts agree, and whether they say what the same contestant chose."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from panendofm.atlas import load_taxonomy
from panendofm.scoring.answers.replies import LETTERS
from panendofm.scoring.statistics.agreement import intraclass, pair_agreement
from panendofm.vqa.bench.bench_folder import LesionNote
from panendofm.vqa.people.ratings import Rating
from panendofm.vqa.people.rubric import TOTAL, Rubric
from panendofm.vqa.score.by_question.estimates import Columns
from panendofm.vqa.score.by_question.results import Agreement, Consistency
from panendofm.vqa.score.sheets import Sheet

JUDGE = "judge:"


def add_ratings(sheets: Sequence[Sheet], ratings: Sequence[Rating], rubric: Rubric) -> str:
    """Give every text its mean rating: by experts where there are any, else by the judge. Says whose it is."""
    experts = [rating for rating in ratings if not rating.rater.startswith(JUDGE)]
    given: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))  # by answer and column
    for rating in experts or ratings:
        values: dict[str, float | None] = {**rating.values, TOTAL: rating.total}
        for name, value in values.items():
            if value is not None:
                given[rating.answer][name].append(value)
    for sheet in sheets:
        for key, item_id in sheet.text_keys.items():
            means = {name: float(np.mean(own)) for name, own in given[key].items()}
            for contrast in rubric.contrasts:
                if contrast.of in means and contrast.less in means:
                    means[contrast.name] = means[contrast.of] - means[contrast.less]
            if TOTAL in means:
                sheet.ratings[item_id] = means[TOTAL]
            for name, value in means.items():
                sheet.dimensions.setdefault(name, {})[item_id] = value
    return "experts" if experts else "judge" if ratings else "nobody"


def agreement_of(ratings: Sequence[Rating]) -> dict[str, dict[str, Agreement]]:
    """Per dimension, never pooled: judge against the experts' mean, and experts among themselves."""
    raters = sorted({rating.rater for rating in ratings})
    experts = [rater for rater in raters if not rater.startswith(JUDGE)]
    judges = [rater for rater in raters if rater.startswith(JUDGE)]
    result: dict[str, dict[str, Agreement]] = {}
    for dimension in dict.fromkeys(name for rating in ratings for name in rating.values):
        values: dict[str, dict[str, int]] = defaultdict(dict)
        for rating in ratings:
            value = rating.values.get(dimension)
            if value is not None:
                values[rating.rater][rating.answer] = value
        common = set.intersection(*(set(values[expert]) for expert in experts)) if experts else set()
        found: dict[str, Agreement] = {}
        if len(experts) > 1 and len(common) > 1:
            table = [[values[expert][key] for expert in experts] for key in sorted(common)]
            found["experts"] = Agreement(len(common), _finite(intraclass(table).icc_2_1))
        for judge in judges:
            keys = sorted(common & set(values[judge]))
            if len(keys) > 1:
                consensus = [float(np.mean([values[expert][key] for expert in experts])) for key in keys]
                found[judge] = _pair([values[judge][key] for key in keys], consensus)
        if found:
            result[dimension] = found
    return result


def _pair(judge: Sequence[float], consensus: Sequence[float]) -> Agreement:
    found = pair_agreement(judge, consensus)
    low, high = found.icc.icc_2_1_ci95
    return Agreement(
        found.n,
        _finite(found.icc.icc_2_1),
        _finite(low),
        _finite(high),
        _finite(found.quadratic_weighted_kappa),
        _finite(found.krippendorff_ordinal),
        _finite(found.spearman),
        _finite(found.pearson),
        _finite(found.kendall_b),
        _finite(found.exact_agreement),
        _finite(found.within_one),
        _finite(found.bias),
    )


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


# ------------------------------------------------------------------------------------------ consistency


@dataclass(frozen=True)
class TextCheck:
    """Codes of the question types that a text must agree with."""

    text: str
    site: str
    diagnosis: str


def consistency(check: TextCheck, note: LesionNote, sheet: Sheet, columns: Columns) -> Consistency | None:
    """Whether the text names the site and the lesion that the contestant chose, and names no other lesion."""
    terms = lesion_terms(note)
    sites = site_terms(note)
    site_items = {item.sha256: item for item in columns.items(check.site)}
    diagnoses = {item.sha256: item for item in columns.items(check.diagnosis)}
    rows = []
    for item in columns.items(check.text):
        text = sheet.reading(item).text
        if item.sha256 not in site_items or item.sha256 not in diagnoses:
            continue
        letter = sheet.reading(site_items[item.sha256]).chosen
        chosen = sheet.chosen(diagnoses[item.sha256])
        if not text.strip() or letter is None or chosen is None:
            continue
        site = list(note.sites)[LETTERS.index(letter)]
        named = named_lesions(text, terms)
        rows.append((mentions(text, sites[site]), chosen in named, bool(named - {item.entity})))
    if not rows:
        return None
    shares = np.array(rows, float).mean(axis=0)
    return Consistency(len(rows), float(shares[0]), float(shares[1]), float(shares[2]))


def is_chinese(text: str) -> bool:
    return any("\u4e00" <= letter <= "\u9fff" for letter in text)


def mentions(text: str, words: set[str]) -> bool:
    return any(re.search(_pattern(word), text, re.IGNORECASE) for word in words)


def _pattern(word: str) -> str:
    """A word of its own, in the plural too; Chinese sets no spaces between words."""
    return re.escape(word) if is_chinese(word) else rf"(?<!\w){re.escape(word)}s?(?!\w)"


def named_lesions(text: str, terms: dict[str, set[str]]) -> set[str]:
    """Lesions whose words stand in a text; a longer word hides those inside it (a lifted polyp is no polyp)."""
    rest = text
    found: set[str] = set()
    words = sorted({word for own in terms.values() for word in own}, key=lambda word: (-len(word), word))
    for word in words:
        rest, count = re.subn(_pattern(word), "\0", rest, flags=re.IGNORECASE)
        if count:
            found |= {name for name, own in terms.items() if word in own}
    return found


def lesion_terms(note: LesionNote) -> dict[str, set[str]]:
    """Words for each class of the bench: its name, and the names and synonyms of its findings."""
    taxonomy = load_taxonomy()
    terms = {}
    for lesion in note.classes:
        findings = {finding.split("/")[0] for finding in lesion.findings}
        words = {name for (_, name), finding in taxonomy.finding_names.items() if finding in findings}
        terms[lesion.name] = {lesion.name.lower(), *(word.replace("-", " ").replace("_", " ") for word in words)}
    return terms


# What the taxonomy calls a site, where it has another name for it, and further words for one.
_REGION_OF_SITE = {"colorectum": "colon"}
_FURTHER_WORDS = {"colorectum": {"colonic", "rectal", "colorectal"}, "duodenum": {"duodenal"}}


def site_terms(note: LesionNote) -> dict[str, set[str]]:
    """Words for each site: its name, and every name of the regions that lie there."""
    names = load_taxonomy().region_names
    terms = {}
    for key, title in note.sites.items():
        region = _REGION_OF_SITE.get(key, key)
        words = {name for name, meaning in names.items() if meaning == region and len(name) > 2}
        terms[key] = {title.lower(), key, *words, *_FURTHER_WORDS.get(key, set())}
    return terms
