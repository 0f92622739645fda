"""The rows of all ranks as one table, and as a document for a bug report that names no person, path or host."""

from __future__ import annotations

import getpass
import importlib.metadata
import math
import platform
import re
import socket
import textwrap
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from launch.doctor.examine import FAMILIES, DoctorFolder
from launch.doctor.rows import ORDER, RankNotes, Row, Status, read_notes
from launch.doctor.versions import DISTRIBUTION
from panendofm.runtime.console import say
from panendofm.runtime.files import write_json
from pretrain import PretrainConfig

FORMAT = 1
# Sections of a config in which no name or path can stand.
_SECTIONS = ("batch", "augment", "masks", "model", "execution", "objective", "optimizer", "sharding", "checkpoint")
_PATH = re.compile(r"(?<![\w.])(?:~|/)[\w.~+@%-]*(?:/[\w.~+@%-]+)+/?|\b[A-Za-z]:\\\S+")
_ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b")
_WIDTH = 118
# How a rank puts it that it has lost another one.
_OF_ANOTHER_RANK = re.compile(r"by peer|remote (?:worker|process)|Broken pipe|another rank|timed? ?out", re.IGNORECASE)


@dataclass(frozen=True)
class Findings:
    """The rows of the table, in the order of the checks, and those of each rank."""

    rows: list[Row]
    by_rank: list[list[Row]]

    @property
    def counts(self) -> dict[Status, int]:
        found = Counter(row.status for row in self.rows)
        return {status: found[status] for status in ORDER}


def collect(folder: DoctorFolder, ranks: int, ended_badly: str | None) -> Findings:
    """Of every check the worst row of any rank. `ended_badly`: why the job ended, where it did not end well."""
    notes = [read_notes(folder.notes(rank)) for rank in range(ranks)]
    rows: list[Row] = []
    for check in _checks_in_order(notes):
        found = [(rank, row) for rank, note in enumerate(notes) for row in note.rows if row.check == check]
        rank, worst = max(found, key=lambda item: ORDER.index(item[1].status))
        others = len({row.status for _, row in found}) > 1
        rows.append(replace(worst, found=f"rank {rank}: {worst.found}") if others else worst)
    rows += _disagreements(notes)
    rows += _lost(notes, ended_badly)
    return Findings(rows, [note.rows for note in notes])


def _checks_in_order(notes: list[RankNotes]) -> list[str]:
    names: dict[str, None] = {}
    for note in notes:
        names.update(dict.fromkeys(row.check for row in note.rows))
    return list(names)


def _disagreements(notes: list[RankNotes]) -> list[Row]:
    """Versions that differ between ranks: each of them may be fine by itself."""
    versions = [row.figures["versions"] for note in notes for row in note.rows if "versions" in row.figures]
    names = sorted({name for own in versions for name in own})
    differ = {name: sorted({str(own.get(name, "none")) for own in versions}) for name in names}
    wrong = [f"{name} is {' and '.join(values)}" for name, values in differ.items() if len(values) > 1]
    if not wrong:
        return []
    return [Row("same on all ranks", "fail", "; ".join(wrong), "give all nodes one environment (cluster file: python)")]


def _lost(notes: list[RankNotes], ended_badly: str | None) -> list[Row]:
    """Ranks that ended in the middle without a word, or never began."""
    rows = []
    silent = [str(rank) for rank, note in enumerate(notes) if not note.begun]
    if silent:
        found = f"rank{'s' if len(silent) > 1 else ''} {', '.join(silent)} left no notes"
        remedy = "look into the job's logs; the run's folder must be on a file system that all nodes share"
        rows.append(Row("ranks", "fail", f"{found}{f' ({ended_badly})' if ended_badly else ''}", remedy))
    errors = [row for note in notes for row in note.rows if row.status == "fail" and row.check in FAMILIES]
    if any(not _OF_ANOTHER_RANK.search(row.found) for row in errors):
        return rows  # one rank has said why it ended; the others ended for want of it
    ended = [
        (rank, note.unfinished)
        for rank, note in enumerate(notes)
        if note.unfinished and note.unfinished not in {row.check for row in note.rows}
    ]
    if ended:
        rank, family = ended[0]
        found = f"rank {rank} ended without a word during '{family}'{f' ({ended_badly})' if ended_badly else ''}"
        remedy = "look into that rank's log; a killed process often had too little memory"
        rows.append(Row(f"rank {rank}", "fail", found, remedy))
    elif ended_badly and not errors and not silent:
        rows.append(Row("job", "fail", ended_badly, "look into the job's logs"))
    return rows


def print_findings(findings: Findings) -> None:
    width = max(len(row.check) for row in findings.rows)
    for row in findings.rows:
        head = f"{row.status}  {row.check.ljust(width)}  "
        lines = textwrap.wrap(row.found, _WIDTH - len(head)) or [""]
        for number, line in enumerate(lines):
            say((head if number == 0 else " " * len(head)) + line)
        if row.remedy:
            indent = " " * (len(head) - 2) + "→ "
            say(textwrap.fill(row.remedy, _WIDTH, initial_indent=indent, subsequent_indent=" " * len(head)))
    counts = findings.counts
    say(", ".join(f"{count} {status}" for status, count in counts.items() if count))


def write_report(path: Path, findings: Findings, config: PretrainConfig, private: list[str]) -> None:
    """`private`: words of this machine that must not get out, such as the names of its nodes."""
    document = {
        "format": FORMAT,
        "version": importlib.metadata.version(DISTRIBUTION) if _is_installed() else None,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "counts": findings.counts,
        "rows": [asdict(row) for row in findings.rows],
        "ranks": [[asdict(row) for row in rows] for rows in findings.by_rank],
        "config": {name: asdict(getattr(config, name)) for name in _SECTIONS},
    }
    write_json(path, _published(document, [*private, socket.gethostname(), getpass.getuser()]))


def _is_installed() -> bool:
    return any(item.metadata["Name"] == DISTRIBUTION for item in importlib.metadata.distributions())


def _published(value: Any, private: list[str]) -> Any:
    """Texts without paths, addresses and the given words; numbers that JSON has."""
    if isinstance(value, dict):
        return {key: _published(inner, private) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_published(inner, private) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return without_private(value, private) if isinstance(value, str) else value


def without_private(text: str, private: list[str]) -> str:
    text = _ADDRESS.sub("<address>", _PATH.sub("<path>", text))
    for word in sorted(set(private), key=len, reverse=True):
        # A whole word: a node that is called n1 must not turn up in every other name.
        if word:
            text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", "<name>", text)
    return text
