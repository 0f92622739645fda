"""panendofm challenge: score, rank and time submissions; check data; merge annotations; the record for regulators."""

from __future__ import annotations

from panendofm.runtime.command_line import Stage, run_stage, verbs

COMMANDS = verbs(
    "panendofm.challenge",
    (
        "score",
        "Score a file of predictions against the truth.",
        *("score.run:score", ("SUBMISSION",), "config:ScoreConfig"),
    ),
    ("rank", "Rank scored submissions, with paired tests.", "rank.run:rank", ("RESULTS…",), "config:RankConfig"),
    ("time", "Time any program on one image and on all.", "timing:time_command", ("COMMAND",), "config:TimeConfig"),
    (
        "check-data",
        "Is a test set readable, unique and free of persons?",
        *("check_data:run_check", ("FOLDER",), "config:CheckDataConfig"),
    ),
    ("merge", "Several doctors' annotations into gold.", "merge:merge", ("LOG",), "config:MergeConfig"),
    ("tasks", "Open work of the log as tasks for a tool.", "annotate.tasks:tasks", ("LOG",), "config:TasksConfig"),
    ("convert", "VOC, COCO and YOLO boxes to and from ours.", "convert:convert", ("SOURCE",), "config:ConvertConfig"),
    ("bundle", "A competition for Codabench.", "host.codabench:bundle", ("TRUTH",), "config:BundleConfig"),
    ("record", "The record for regulators.", "record.run:record", ("RESULTS…",), "config:RecordConfig"),
)
STAGE = Stage("panendofm challenge", COMMANDS, extra="eval")

if __name__ == "__main__":
    run_stage(STAGE)
