"""Readers' answer files: appended as they come, locked with a checksum at the end.

people/<reader>.jsonl holds the answers, people/<reader>.lock.json the checksum of the finished file, people/readers.csv
who is in which group. No names: a reader is a code such as junior-1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from panendofm.records.documents import Count, Seconds, parse_document, read_document, write_document
from panendofm.runtime.csv_files import csv_text, read_csv
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import append_json_line, make_directory, read_json_lines, sha256_of, write_text
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.client.answers import PEOPLE, Answer, AnswerSet, Run, Variant, cut_torn_line

READERS = "readers.csv"
_COLUMNS = ("reader", "group", "years", "trained_on")


def check_code(code: str, key: str) -> str:
    """A code that can be a file name and is nobody's name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,40}", code):
        raise UserError(f"{key} '{code}': use a code of letters, digits and hyphens such as junior-1, no name.")
    return code


@dataclass(frozen=True)
class ReaderAnswer:
    """One line of a reader's file."""

    id: str
    reader: str
    group: str
    response: str
    seconds: Seconds = 0.0
    order: Count = 0
    bench_sha256: str | None = None
    time: str = ""


@dataclass(frozen=True)
class Lock:
    sha256: str
    questions: int


@dataclass(frozen=True)
class ReaderFile:
    folder: Path
    reader: str

    @property
    def answers(self) -> Path:
        return self.folder / f"{self.reader}.jsonl"

    @property
    def lock_file(self) -> Path:
        return self.folder / f"{self.reader}.lock.json"

    @property
    def locked(self) -> bool:
        return self.lock_file.is_file()

    def open(self, group: str, bench: Bench) -> None:
        """Make the file ready to append to, after a crash too."""
        make_directory(self.folder)
        cut_torn_line(self.answers)
        _note_reader(self.folder / READERS, self.reader, group)
        self.rows(bench)

    def rows(self, bench: Bench) -> list[ReaderAnswer]:
        lines = read_json_lines(self.answers) if self.answers.is_file() else []
        rows = []
        for number, line in enumerate(lines, 1):
            where = f"{self.answers}, line {number}"
            row = parse_document(ReaderAnswer, line, where, "an answer of a reader")
            if row.bench_sha256 not in (None, bench.checksum):
                raise UserError(f"{where}: it answers another bench; keep one folder for each.")
            if row.id not in bench.by_id:
                raise UserError(f"{where}: the bench has no question {row.id}.")
            rows.append(row)
        return rows

    def append(self, row: ReaderAnswer) -> None:
        if self.locked:
            raise UserError(f"{self.reader} has finished: the answers are locked.")
        append_json_line(self.answers, vars(row))

    def lock(self, questions: int) -> None:
        write_document(self.lock_file, Lock(sha256_of(self.answers), questions))

    def refuse_changed(self) -> None:
        if self.locked and read_document(Lock, self.lock_file, "a reader's lock").sha256 != sha256_of(self.answers):
            raise UserError(f"{self.answers} was changed after it was locked; restore the file that was locked.")


def _note_reader(path: Path, reader: str, group: str) -> None:
    rows = _read_readers(path) if path.is_file() else []
    for row in rows:
        if row["reader"] == reader and row["group"] != group:
            raise UserError(f"{path}: {reader} is in the group {row['group']}, not {group}; use another code.")
    if any(row["reader"] == reader for row in rows):
        return
    lines = [[row.get(column) or "" for column in _COLUMNS] for row in [*rows, {"reader": reader, "group": group}]]
    write_text(path, csv_text(_COLUMNS, lines))


def _read_readers(path: Path) -> list[dict[str, str]]:
    rows = read_csv(path)
    for row in rows:
        if not row.get("reader") or not row.get("group"):
            raise UserError(f"{path}: every line needs reader and group.")
        check_code(row["reader"], "reader")
    return rows


def read_people(folder: Path, bench: Bench, allow_partial: bool) -> list[tuple[str, AnswerSet]]:
    """(group, answers) of every reader; an unfinished exam counts only when that is allowed."""
    found = []
    for row in _read_readers(folder / READERS):
        file = ReaderFile(folder, row["reader"])
        if not file.answers.is_file():
            continue
        file.refuse_changed()
        if not file.locked and not allow_partial:
            raise UserError(f"{file.answers}: the exam isn't finished; let it be locked, or set allow_partial=true.")
        answers = {}
        for line in file.rows(bench):  # a changed mind counts
            answer = Answer(line.id, Variant(), file.reader, line.response, "stop", latency_s=line.seconds)
            answers[line.id, Variant()] = answer
        found.append((row["group"], AnswerSet(file.reader, folder, Run(kind=PEOPLE), answers)))
    return found
