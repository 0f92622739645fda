#!/bin/sh
# What the tests in this folder need beside Python: Slurm and munge, and for sacct slurmdbd and MariaDB, from Debian or
# Ubuntu. Does nothing when they are there.
set -e
missing=
for program in slurmctld slurmd munged slurmdbd mariadbd; do command -v $program > /dev/null || missing=yes; done
if [ -z "$missing" ]; then exit 0; fi
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
apt-get -q -y install --no-install-recommends slurm-wlm munge slurmdbd mariadb-server-core mariadb-client-core
