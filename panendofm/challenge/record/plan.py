"""plan.yaml: what only people know of an evaluation, field by field."""

from __future__ import annotations

from pathlib import Path

from panendofm.challenge.files.text_table import read_utf8
from panendofm.runtime.console import warn
from panendofm.runtime.errors import UserError
from panendofm.runtime.names import hint
from panendofm.runtime.yaml_files import parse_yaml

# Field: what it is, and which lines of TRIPOD+AI and CLAIM ask for it. STARD-AI has a table of its own.
PLAN = {
    "title": ("What is evaluated", "TRIPOD+AI 1; CLAIM title"),
    "summary": ("Summary of design, methods, results and conclusions", "–"),
    "intended_use": ("Intended use and users", "TRIPOD+AI 3b; CLAIM 3"),
    "objectives": ("Objectives and hypotheses", "–"),
    "evaluator": ("Who evaluates, and in which role", "TRIPOD+AI 18"),
    "developer": ("Who developed the system", "TRIPOD+AI 18"),
    "period": ("When the evaluation took place", "TRIPOD+AI 5b"),
    "study_design": ("Prospective or retrospective", "–"),
    "test_set": ("Test set, centers and inclusion", "TRIPOD+AI 5–6; CLAIM 7–9"),
    "recruitment": ("How patients were found: series, basis, setting and dates", "–"),
    "flow": ("How many patients and images were left out, and why", "–"),
    "devices": ("Endoscopes, processors and their settings", "–"),
    "preprocessing": ("How data were recorded and prepared", "–"),
    "system": ("The system, in enough detail to repeat it", "–"),
    "thresholds": ("Cut-offs and how they were chosen", "–"),
    "consent": ("Consent of patients", "TRIPOD+AI 18b"),
    "ethics_review": ("Ethics review", "TRIPOD+AI 18b; CLAIM 5"),
    "anonymization": ("Where and how data were anonymized", "CLAIM 12"),
    "retention": ("How long data are kept", "–"),
    "reference_standard": ("How the gold standard was made", "TRIPOD+AI 8; CLAIM 14–18"),
    "reference_rationale": ("Why this gold standard, and its cut-offs", "–"),
    "blinding": ("Who knew what when reading", "–"),
    "indeterminate": ("How unclear cases were handled", "–"),
    "sample_size": ("How the size of the test set was chosen", "–"),
    "interval": ("Time and treatment between the test and the gold standard", "–"),
    "representativeness": ("Whether the test set is like the intended patients", "–"),
    "adverse_events": ("Adverse events", "–"),
    "fairness": ("Ethical considerations and fairness", "–"),
    "certifications": ("Claimed certifications", "–"),
    "limitations": ("Known limitations", "TRIPOD+AI 26; CLAIM 38"),
    "implications": ("What follows for practice", "–"),
    "registration": ("Registry and number", "–"),
    "protocol": ("Where the protocol can be read", "–"),
    "funding": ("Funding and interests", "TRIPOD+AI 18a; CLAIM 42"),
    "commercial_interests": ("Commercial interests", "–"),
    "availability": ("Where data and code are, and on which terms", "–"),
}
_RENAMED_FIELDS = {"anonymisation": "anonymization"}


def read_plan(path: str | None) -> dict[str, str | None]:
    """Every field; None where nobody filled it."""
    found: dict[str, object] = {}
    if path is not None:
        found = parse_yaml(read_utf8(Path(path)), path) or {}
        if not isinstance(found, dict):
            raise UserError(f"{path}: a plan is a mapping of fields to text; its fields: {', '.join(PLAN)}.")
        for old, new in _RENAMED_FIELDS.items():
            if old in found:
                warn(f"{path}: the field '{old}' is called '{new}' now; please rename it.")
                found[new] = found.pop(old)
        for name in found:
            if name not in PLAN:
                raise UserError(f"{path}: there is no field '{name}'; {hint(str(name), PLAN)}")
    return {name: str(found[name]).strip() if found.get(name) else None for name in PLAN}
