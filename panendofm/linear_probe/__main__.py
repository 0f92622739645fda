"""panendofm probe: linear probes on PanEndoX, and what trained heads answer."""

from __future__ import annotations

from panendofm.linear_probe.config import PredictConfig, ProbeConfig, ReportConfig, ShortcutConfig, TimeConfig
from panendofm.runtime.command_line import Command, Stage, run_stage

_COMMANDS = "panendofm.linear_probe.commands"
COMMANDS = (
    Command(
        "",
        "Linear probes of frozen networks on PanEndoX tasks; 'panendofm dense' is for masks and boxes.",
        f"{_COMMANDS}:run_probe",
        ("NETWORK…",),
        ProbeConfig,
    ),
    Command(
        "predict",
        "Classify images with a trained head.",
        f"{_COMMANDS}:run_predict",
        ("HEAD", "IMAGES…"),
        PredictConfig,
        show_config=False,  # out=- prints the answers and nothing else
    ),
    Command("time", "Time a head image by image.", f"{_COMMANDS}:run_time", ("HEAD", "IMAGES…"), TimeConfig),
    Command(
        "report",
        "Report what a video shows.",
        f"{_COMMANDS}:run_report_video",
        ("HEAD", "VIDEO"),
        ReportConfig,
    ),
    Command(
        "shortcut",
        "Answers with and without the position box.",
        f"{_COMMANDS}:run_shortcut",
        ("HEAD", "DATA"),
        ShortcutConfig,
    ),
)
STAGE = Stage("panendofm probe", COMMANDS, extra="eval")

if __name__ == "__main__":
    run_stage(STAGE)
