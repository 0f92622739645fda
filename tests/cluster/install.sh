#!/bin/sh
# What the tests in this folder need beside Python: Slurm and munge, from Debian or Ubuntu. Does nothing when they are there.
set -e
if command -v slurmctld > /dev/null && command -v slurmd > /dev/null && command -v munged > /dev/null; then exit 0; fi
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
apt-get -q -y install --no-install-recommends slurm-wlm munge
