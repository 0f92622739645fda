"""panendofm probe: linear probes on PanEndoX, and what trained heads answer."""

from __future__ import annotations

from dataclasses import replace

from panendofm.runtime.command_line import Stage, run_stage, verbs

_PROBE, _PREDICT, *_OTHERS = verbs(
    "panendofm.linear_probe",
    (
        "",
        "Linear probes of frozen networks on PanEndoX tasks; 'panendofm dense' is for masks and boxes.",
        *("commands:run_probe", ("NETWORK…",), "config:ProbeConfig"),
    ),
    (
        "predict",
        "Classify images with a trained head.",
        *("inference.predict:predict", ("HEAD", "IMAGES…"), "config:PredictConfig"),
    ),
    ("time", "Time a head image by image.", "inference.timing:time_head", ("HEAD", "IMAGES…"), "config:TimeConfig"),
    (
        "report",
        "Report what a video shows.",
        *("inference.video_report:video_report", ("HEAD", "VIDEO"), "config:ReportConfig"),
    ),
    (
        "shortcut",
        "Answers with and without the position box.",
        *("inference.shortcut:shortcut", ("HEAD", "DATA"), "config:ShortcutConfig"),
    ),
)
# out=- prints the answers and nothing else.
COMMANDS = (_PROBE, replace(_PREDICT, show_config=False), *_OTHERS)
STAGE = Stage("panendofm probe", COMMANDS, extra="eval")

if __name__ == "__main__":
    run_stage(STAGE)
