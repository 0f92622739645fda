"""Free texts: their ratings, how judge and experts agree, and whether they say what the same contestant chose."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from panendofm.atlas import load_taxonomy
from panendofm.scoring.statistics.agreement import intraclass, pair_agreement
from panendofm.vqa.bench.items import Bench
from panendofm.vqa.people.ratings import DIMENSIONS, Rating
from panendofm.vqa.score.gi_bench.estimates import Columns
from panendofm.vqa.score.gi_bench.metrics import is_chinese
from panendofm.vqa.score.gi_bench.sheets import Sheet

JUDGE = "judge:"


def add_ratings(sheets: Sequence[Sheet], ratings: Sequence[Rating]) -> str:
    """Give every text its mean rating: by experts where there are any, else by the judge. Says whose it is."""
    experts = [rating for rating in ratings if not rating.rater.startswith(JUDGE)]
    used = experts or list(ratings)
    totals: dict[str, list[float]] = defaultdict(list)
    for rating in used:
        if rating.total is not None:
            totals[rating.answer].append(rating.total)
    for sheet in sheets:
        for key, (task, sha256) in sheet.keys.items():
            if totals[key]:
                sheet.ratings[task][sha256] = float(np.mean(totals[key]))
    return "experts" if experts else "judge" if ratings else "nobody"


def agreement_of(ratings: Sequence[Rating]) -> dict[str, Any]:
    """Per dimension, never pooled: judge against the experts' mean, and experts among themselves."""
    experts = sorted({r.rater for r in ratings if not r.rater.startswith(JUDGE)})
    judges = sorted({r.rater for r in ratings if r.rater.startswith(JUDGE)})
    by_rater: dict[str, dict[str, Rating]] = defaultdict(dict)
    for rating in ratings:
        by_rater[rating.rater][rating.answer] = rating
    result: dict[str, Any] = {}
    for dimension in DIMENSIONS:
        values = {
            rater: {key: v for key, r in own.items() if (v := r.values[dimension]) is not None}
            for rater, own in by_rater.items()
        }
        entry: dict[str, Any] = {}
        common = set.intersection(*(set(values[e]) for e in experts)) if experts else set()
        if len(experts) > 1 and len(common) > 1:
            table = [[values[e][key] for e in experts] for key in sorted(common)]
            entry["experts"] = {"n": len(common), "icc_2_1": _finite(intraclass(table).icc_2_1)}
        for judge in judges:
            keys = sorted(common & set(values[judge]))
            if len(keys) > 1:
                consensus = [float(np.mean([values[e][key] for e in experts])) for key in keys]
                found = pair_agreement([values[judge][key] for key in keys], consensus)
                entry[judge] = _flat(asdict(found))
        if entry:
            result[dimension] = entry
    return result


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    icc = values.pop("icc")
    low, high = icc["icc_2_1_ci95"]
    flat = {**values, "icc_2_1": icc["icc_2_1"], "icc_2_1_low": low, "icc_2_1_high": high}
    return {name: _finite(value) for name, value in flat.items()}


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


# ------------------------------------------------------------------------------------------ consistency


def consistency(bench: Bench, sheet: Sheet, columns: Columns) -> dict[str, Any]:
    """Whether the findings text names the site and the lesion that the contestant chose, and names no other lesion."""
    terms = lesion_terms(bench)
    sites = site_terms(bench)
    items = {item.sha256: item for item in columns.lesions.get("q4", [])}
    diagnoses = {item.sha256: item for item in columns.lesions.get("q3", [])}
    rows = []
    for sha256, item in items.items():
        text = sheet.replies["Q4"].get(sha256, "")
        q1, q3 = sheet.q1.get(sha256), sheet.q3.get(sha256)
        if not text.strip() or q1 is None or q3 is None or q1.chosen is None or q3.chosen is None:
            continue
        site = list(bench.manifest["sites"])[ord(q1.chosen) - ord("A")]
        named = named_lesions(text, terms)
        chosen = sheet.chosen(diagnoses[sha256])
        rows.append((mentions(text, sites[site]), chosen in named, bool(named - {item.entity})))
    if not rows:
        return {}
    table = np.array(rows, float)
    names = ("names_the_chosen_site", "names_the_chosen_lesion", "names_a_lesion_that_is_not_there")
    return {"n": len(rows), **dict(zip(names, (float(v) for v in table.mean(axis=0)), strict=True))}


def mentions(text: str, words: set[str]) -> bool:
    return any(re.search(_pattern(word), text, re.IGNORECASE) for word in words)


def _pattern(word: str) -> str:
    """A word of its own, in the plural too; Chinese sets no spaces between words."""
    return re.escape(word) if is_chinese(word) else rf"(?<!\w){re.escape(word)}s?(?!\w)"


def named_lesions(text: str, terms: dict[str, set[str]]) -> set[str]:
    """Lesions whose words stand in a text; a longer word hides those inside it (a lifted polyp is no polyp)."""
    rest, found = text, set()
    words = sorted({word for own in terms.values() for word in own}, key=lambda word: (-len(word), word))
    for word in words:
        rest, count = re.subn(_pattern(word), "\0", rest, flags=re.IGNORECASE)
        if count:
            found |= {name for name, own in terms.items() if word in own}
    return found


def lesion_terms(bench: Bench) -> dict[str, set[str]]:
    """Words for each class of the bench: its name, and the names and synonyms of its findings."""
    taxonomy = load_taxonomy()
    terms = {}
    for lesion in bench.manifest["classes"]:
        findings = {finding.split("/")[0] for finding in lesion["findings"]}
        words = {name for (_, name), finding in taxonomy.finding_names.items() if finding in findings}
        terms[lesion["name"]] = {lesion["name"].lower(), *(word.replace("-", " ").replace("_", " ") for word in words)}
    return terms


def site_terms(bench: Bench) -> dict[str, set[str]]:
    """Words for each site: its name, and every name of the regions that lie there."""
    taxonomy = load_taxonomy()
    region_of = {"colorectum": "colon", "duodenum": "small-intestine"}
    terms = {}
    for key, title in bench.manifest["sites"].items():
        region = region_of.get(key, key)
        words = {name for name, meaning in taxonomy.region_names.items() if meaning == region and len(name) > 2}
        if key == "duodenum":
            words = {"duodenum", "duodenal"}
        extra = {"colorectum": {"colonic", "rectal", "colorectal"}}.get(key, set())
        terms[key] = {title.lower(), key, *words, *extra}
    return terms
