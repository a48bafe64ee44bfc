#!/usr/bin/env bash
# A real Ray of several nodes on this machine: one raylet a node, loopback only, GPUs that are only numbers.
#
#   start_ray.sh BASE         starts a head without GPUs and NODES more; prints RAY_ADDRESS=...
#   start_ray.sh BASE NAME I  adds a node NAME with address 127.0.0.(10+I), to be killed by a test
#
# BASE must be short (Unix sockets lie below it). From the environment: NODES=2 CPUS=4 GPUS=4 (of each node) RAY=ray
# RAY_PORT=26379 (outside 10002-19999, where Ray's workers listen).
set -euo pipefail
base=$1 here=$(dirname "$0")
nodes=${NODES:-2} cpus=${CPUS:-4} gpus=${GPUS:-4} port=${RAY_PORT:-26379} ray=${RAY:-ray}
head=127.0.0.10 # not 127.0.0.1, which ray.init rewrites to the machine's outer address
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$base/token # it listens on all addresses, as Ray always does
export RAY_USAGE_STATS_ENABLED=0 RAY_DISABLE_IMPORT_WARNING=1
# A killed raylet is seen in about five seconds; one that a busy machine starves has half a minute.
checks='{"health_check_initial_delay_ms":1000,"health_check_period_ms":1000,"health_check_timeout_ms":6000,"health_check_failure_threshold":5}'
mkdir -p "$base"/log "$base"/run
[ -e "$base/token" ] || (umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$base/token")

try() { # try NAME ARGUMENTS...: a session of its own, by which stop_ray.sh finds all of its processes
  local name=$1
  shift
  setsid "$ray" start --block --disable-usage-stats --num-cpus "$cpus" --object-store-memory 104857600 "$@" \
    >"$base/log/$name.log" 2>&1 </dev/null &
  echo $! >"$base/run/$name.pid"
  while kill -0 "$(cat "$base/run/$name.pid")" 2>/dev/null; do
    grep -q 'Running subprocesses are monitored' "$base/log/$name.log" && return
    sleep 0.1
  done
  "$here/stop_ray.sh" "$base" "$name"
  return 1
}

launch() { # a busy machine is not always within the 30 s that Ray gives a node
  try "$@" || try "$@" || try "$@" || {
    echo "Ray node $1 does not come up:" >&2
    tail -5 "$base/log/$1.log" >&2
    return 1
  }
}

node() { # node NAME I
  launch "$1" --address "$head:$port" --node-ip-address "127.0.0.$((10 + $2))" --num-gpus "$gpus"
}

if [ $# -gt 1 ]; then
  node "$2" "$3"
else
  launch head --head --node-ip-address "$head" --port "$port" --temp-dir "$base/t" --num-gpus 0 \
    --include-dashboard false --system-config "$checks"
  for ((i = 1; i <= nodes; i++)); do node "n$i" "$i"; done # one after the other: together they time out
  echo "RAY_ADDRESS=$head:$port"
fi
