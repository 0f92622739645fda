#!/bin/bash
# A real Slurm on one machine, for tests: munged, slurmctld, and one slurmd for each of several nodes.
#   ROOT=DIR tests/cluster/slurm_cluster.sh start      then: export SLURM_CONF=DIR/slurm.conf; sinfo; sbatch …
#   ROOT=DIR tests/cluster/slurm_cluster.sh stop       ends what start began, by its pid files
#   ROOT=DIR tests/cluster/slurm_cluster.sh node n2    starts that node's slurmd again
#   ROOT=DIR tests/cluster/slurm_cluster.sh controller starts slurmctld again, with all that it knew
#   ROOT=DIR tests/cluster/slurm_cluster.sh forget     starts a new slurmctld that knows none of the jobs that were
# Nothing is written outside ROOT. NODES (at most 9), CPUS and GPUS per node; the GPUs are pretend devices, which
# schedule like real ones. PORT is the first of twelve ports. Partitions: main (default, preemptible) and high (preempts
# main). ACCOUNTING=1 adds slurmdbd and a MariaDB, for sacct.
set -euo pipefail
: "${ROOT:?set ROOT to an empty or missing directory}"
NODES=${NODES:-4}; CPUS=${CPUS:-2}; GPUS=${GPUS:-2}; PORT=${PORT:-26810}; ACCOUNTING=${ACCOUNTING:-0}
HERE=$(cd "$(dirname "$0")" && pwd)
export SLURM_CONF=$ROOT/slurm.conf

write_configuration() {
  local values="s#@ROOT@#$ROOT#g; s#@HOST@#$(hostname -s)#g; s#@NODES@#$NODES#g; s#@CPUS@#$CPUS#g; s#@GPUS@#$GPUS#g"
  values="$values; s#@CONTROL_PORT@#$PORT#; s#@NODE_PORTS@#[$((PORT + 1))-$((PORT + NODES))]#"
  values="$values; s#@DBD_PORT@#$((PORT + 10))#; s#@STORAGE_PORT@#$((PORT + 11))#"
  local accounting='AccountingStorageType=accounting_storage/none'
  if [ "$ACCOUNTING" = 1 ]; then
    accounting="AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=localhost"
    accounting="$accounting\nAccountingStoragePort=$((PORT + 10))\nAccountingStoragePass=$ROOT/munge/munge.sock"
    sed -e "$values" "$HERE/slurmdbd.conf.in" > "$ROOT/slurmdbd.conf"
    chmod 600 "$ROOT/slurmdbd.conf"
  fi
  sed -e "$values; s#@ACCOUNTING@#$accounting#" "$HERE/slurm.conf.in" > "$SLURM_CONF"
  # Slurm 22.05 has no CgroupPlugin=disabled yet; v1 that constrains nothing works on machines without cgroups.
  printf 'CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nConstrainCores=no\nConstrainRAMSpace=no\nConstrainDevices=no\n' > "$ROOT/cgroup.conf"
  for i in $(seq 0 $((GPUS - 1))); do mknod "$ROOT/fakegpu$i" c 1 3; done
  printf 'AutoDetect=off\nNodeName=n[1-%s] Name=gpu File=%s/fakegpu[0-%s]\n' "$NODES" "$ROOT" $((GPUS - 1)) > "$ROOT/gres.conf"
}

start_accounting() {
  mariadb-install-db --no-defaults --user=root --datadir="$ROOT/db" --auth-root-authentication-method=normal \
    --skip-test-db > "$ROOT/log/mariadb-install.log" 2>&1
  nohup mariadbd --no-defaults --user=root --datadir="$ROOT/db" --socket="$ROOT/my.sock" --port=$((PORT + 11)) \
    --bind-address=127.0.0.1 --pid-file="$ROOT/mariadb.pid" --innodb-lock-wait-timeout=900 > "$ROOT/log/mariadb.log" 2>&1 &
  wait_for mariadb -S "$ROOT/my.sock" -u root -e 'select 1'
  mariadb -S "$ROOT/my.sock" -u root -e "create database slurm_accounting; \
    create user 'slurm'@'127.0.0.1' identified by 'slurm'; create user 'slurm'@'localhost' identified by 'slurm'; \
    grant all on slurm_accounting.* to 'slurm'@'127.0.0.1'; grant all on slurm_accounting.* to 'slurm'@'localhost'"
  slurmdbd
  wait_for sacctmgr -n show cluster
  sacctmgr -i add cluster test > /dev/null
}

wait_for() {
  for _ in $(seq 120); do
    if "$@" > /dev/null 2>&1; then return; fi
    sleep .25
  done
  echo "still not: $*; see $ROOT/log" >&2
  exit 1
}

start() {
  mkdir -p "$ROOT"/{state,log,munge}
  for i in $(seq 1 "$NODES"); do mkdir -p "$ROOT/spool/n$i"; done
  chmod 755 "$ROOT" "$ROOT/munge"
  dd if=/dev/urandom of="$ROOT/munge.key" bs=1024 count=1 status=none
  chmod 400 "$ROOT/munge.key"
  write_configuration
  munged --force --key-file="$ROOT/munge.key" --socket="$ROOT/munge/munge.sock" --pid-file="$ROOT/munge/munged.pid" \
    --log-file="$ROOT/log/munged.log" --seed-file="$ROOT/munge/munged.seed"
  if [ "$ACCOUNTING" = 1 ]; then start_accounting; fi
  slurmctld -f "$SLURM_CONF" -c
  for i in $(seq 1 "$NODES"); do slurmd -f "$SLURM_CONF" -N "n$i"; done
  for _ in $(seq 80); do
    if [ "$(sinfo -h -N -p main -t idle -o %N 2>/dev/null | wc -l)" = "$NODES" ]; then return; fi
    sleep .25
  done
  echo "the cluster did not come up; see $ROOT/log" >&2
  exit 1
}

stop() {
  for file in "$ROOT"/slurmd.*.pid "$ROOT"/slurmctld.pid "$ROOT"/slurmdbd.pid "$ROOT"/mariadb.pid \
    "$ROOT"/munge/munged.pid; do
    if [ -s "$file" ]; then kill "$(cat "$file")" 2>/dev/null || true; fi
  done
}

forget() {
  local pid
  pid=$(cat "$ROOT/slurmctld.pid")
  kill "$pid"
  while kill -0 "$pid" 2> /dev/null; do sleep .1; done
  slurmctld -f "$SLURM_CONF" -c
  wait_for sinfo
}

case "${1:-}" in
  start) start ;;
  stop) stop ;;
  node) slurmd -f "$SLURM_CONF" -N "$2" ;;
  controller) slurmctld -f "$SLURM_CONF" && wait_for sinfo ;;
  forget) forget ;;
  *) echo "usage: ROOT=DIR $0 start|stop|node NAME|controller|forget" >&2; exit 2 ;;
esac
