"""python -m data_pipeline VERB …"""

from __future__ import annotations

from panendofm.runtime.command_line import Stage, run_stage, verbs

_KEYS = "config:PipelineConfig"
COMMANDS = verbs(
    "data_pipeline",
    ("plan", "List what would be read, and whether the guarded sets can be.", "commands:run_plan", (), _KEYS),
    ("shard", "Screen the corpora and write shards; continues an interrupted run.", "run:shard", (), _KEYS),
    ("verify", "Check a finished set of shards from its bytes.", "commands:run_verify", (), _KEYS),
    (
        "import",
        "Make a shard set of WebDataset tars, a folder of images or a saved Hugging Face dataset, as they are.",
        *("commands:run_import", ("SOURCE",), "foreign.config:ImportConfig"),
    ),
    (
        "check",
        "Compare a finished set with evaluation images; certify it when none of them is in it.",
        *("commands:run_check", ("SHARDS",), "foreign.config:CheckConfig"),
    ),
    ("report", "Write OUT/report.html for a finished set.", "reporting.page:report", (), _KEYS),
    (
        "curate",
        "Cluster the frames of a finished set and write balanced weights for pretrain's data.sampling_weights.",
        *("curate.run:curate", ("SHARDS",), "curate.config:CurateConfig"),
    ),
    (
        "lookup",
        "Find the frames of a curated set that are most like some images.",
        *("curate.lookup:look_up", ("SHARDS", "IMAGES…"), "curate.config:LookupConfig"),
    ),
    (
        "upload",
        "Bring a finished set to an S3-compatible store; goes on with an interrupted upload.",
        *("commands:run_upload", ("FOLDER", "URL"), ""),
    ),
    (
        "synthesize",
        "Write a synthetic corpus in the layouts of the real ones, with a truth file.",
        *("commands:run_synthesize", ("DIR",), "commands:SynthesizeConfig"),
    ),
    (
        "examination",
        "Write one synthetic video whose findings over time are known, with a CSV of them.",
        *("commands:run_examination", ("VIDEO",), "commands:ExaminationConfig"),
    ),
)
STAGE = Stage("python -m data_pipeline", COMMANDS, extra="data")

if __name__ == "__main__":
    run_stage(STAGE)
