#!/bin/sh
# Prints a lock of all that pyproject.toml asks for, at exact versions: `make lock`.
# torch and torchvision are chosen here, because their versions must match and because a plain request for torch may bring
# several GB of CUDA libraries. torchvision comes without dependencies for the same reason.
set -eu
torch=torch==2.13.0
torchvision=torchvision==0.28.0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${1:-python3}" -m venv "$work/venv"
pip="$work/venv/bin/python -m pip --disable-pip-version-check --quiet"
printf '%s\n%s\n' "$torch" "$torchvision" > "$work/constraints"
$pip install "$torch" >&2
$pip install --no-deps "$torchvision" >&2
$pip install -c "$work/constraints" setuptools ".[dev]" >&2
echo "# Exact versions of everything, made by 'make lock'. Installed by the Makefile."
# The CUDA libraries follow torch's build; opencv-python would overwrite the headless one, which has the same modules.
$pip freeze --all | grep -viE '^(pip|panendofm|opencv-python|nvidia-.*|triton|cuda-.*)( @|==)' | sed -E 's/^(torch==[0-9.]+)\+.*/\1/'
