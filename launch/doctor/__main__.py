"""`python -m launch.doctor FOLDER CONFIG [--gpu] [--full]`: a rank of the job of `python -m launch doctor`."""

from __future__ import annotations

import sys
from pathlib import Path

from launch.doctor.examine import DoctorFolder, examine
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import exit_code_of
from pretrain import PretrainConfig


def main() -> None:
    folder, config = DoctorFolder(Path(sys.argv[1])), load_config(PretrainConfig, sys.argv[2])
    examine(folder, config, wants_gpu="--gpu" in sys.argv[3:], full="--full" in sys.argv[3:])


if __name__ == "__main__":
    sys.exit(exit_code_of(main))
