"""panendofm challenge: score, rank and time submissions; check data; merge annotations; the record for regulators."""

from __future__ import annotations

from panendofm.runtime.command_line import Command, Stage, run_stage


def _command(name: str, summary: str, argument: str, place: str, schema: str) -> Command:
    return Command(name, summary, f"panendofm.challenge.{place}", (argument,), f"panendofm.challenge.config:{schema}")


COMMANDS = (
    _command("score", "Score a file of predictions against the truth.", "SUBMISSION", "score.run:main", "ScoreConfig"),
    _command("rank", "Rank scored submissions, with paired tests.", "RESULTS…", "rank.run:main", "RankConfig"),
    _command("time", "Time any program on one image and on all.", "COMMAND", "timing:main", "TimeConfig"),
    _command(
        "check-data",
        "Is a test set readable, unique and free of persons?",
        "FOLDER",
        "check_data:main",
        "CheckDataConfig",
    ),
    _command("merge", "Several doctors' annotations into gold.", "LOG", "merge:main", "MergeConfig"),
    _command("tasks", "Open work of the log as tasks for a tool.", "LOG", "annotate.tasks:main", "TasksConfig"),
    _command("convert", "VOC, COCO and YOLO boxes to and from ours.", "SOURCE", "convert:main", "ConvertConfig"),
    _command("bundle", "A competition for Codabench.", "TRUTH", "host.codabench:main", "BundleConfig"),
    _command("record", "The record for regulators.", "RESULTS…", "record.run:main", "RecordConfig"),
)
STAGE = Stage("panendofm challenge", COMMANDS, extra="eval")

if __name__ == "__main__":
    run_stage(STAGE)
