"""panendofm vqa: benches of questions about endoscopy images."""

from __future__ import annotations

from panendofm.runtime.command_line import Command, Stage, run_stage

_BENCH = ("BENCH",)
_ANSWERS = ("BENCH", "ANSWERS…")
# Verb, what it does, its arguments, and its keys: a class of this package.
_VERBS = (
    ("build", "Make a bench of questions from an atlas.", (), "bench.config:BuildConfig"),
    ("instruct", "Write conversations to train on.", (), "bench.config:InstructConfig"),
    ("import", "Make a bench from a TSV in EndoBench's style.", ("TSV",), "bench.config:ImportConfig"),
    ("export", "Write a bench for other tools.", _BENCH, "bench.config:ExportConfig"),
    ("check", "Look for shortcuts and damage in a bench.", _BENCH, "score.config:CheckConfig"),
    ("review", "Write a page for physicians' review.", _BENCH, "bench.config:ReviewConfig"),
    ("rephrase", "Word the questions anew by a model.", _BENCH, "bench.config:RephraseConfig"),
    ("ask", "Ask a model the questions of a bench.", _BENCH, "client.config:RunConfig"),
    ("extract", "Let a model read unreadable replies.", ("BENCH", "ANSWERS"), "client.config:ExtractConfig"),
    ("convert", "Read or write answers of other tools.", ("BENCH", "ANSWERS"), "client.config:ConvertConfig"),
    ("encoder", "Answer a bench with a frozen encoder.", _BENCH, "score.config:EncoderConfig"),
    ("synthesize", "Make up contestants and readers.", _BENCH, "score.config:SynthesizeConfig"),
    ("score", "Score answers: tables and a page.", _ANSWERS, "score.config:ScoreConfig"),
    ("exam", "Ask a person, on a page of this machine.", _BENCH, "people.config:ExamConfig"),
    ("rate", "Rate texts blindly, on a page.", _ANSWERS, "people.config:RateConfig"),
    ("rate-reports", "Rate teams' reports blindly, on a page.", ("REPORTS…",), "people.config:RateReportsConfig"),
    ("rank-reports", "Rank teams by their rated reports.", ("REPORTS…",), "people.config:RankReportsConfig"),
    ("judge", "Let a model rate texts.", _ANSWERS, "people.config:JudgeConfig"),
    ("contamination", "Look for a bench's images in shards and folders.", _BENCH, "score.config:ContaminationConfig"),
)
COMMANDS = tuple(
    Command(verb, summary, f"panendofm.vqa.commands:run_{verb.replace('-', '_')}", arguments, f"panendofm.vqa.{schema}")
    for verb, summary, arguments, schema in _VERBS
)
STAGE = Stage("panendofm vqa", COMMANDS, extra="vqa")

if __name__ == "__main__":
    run_stage(STAGE)
