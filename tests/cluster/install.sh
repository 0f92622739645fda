#!/bin/sh
# What the tests in this folder need beside Python, from Debian or Ubuntu: Slurm and munge; with the word "accounting"
# also slurmdbd and MariaDB, for the slow test of sacct. Does nothing when they are there.
set -e
packages="slurm-wlm munge" programs="slurmctld slurmd munged"
if [ "$1" = accounting ]; then
  packages="$packages slurmdbd mariadb-server-core mariadb-client-core" programs="$programs slurmdbd mariadbd"
fi
missing=
for program in $programs; do command -v "$program" > /dev/null || missing=yes; done
if [ -z "$missing" ]; then exit 0; fi
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
apt-get -q -y install --no-install-recommends $packages
