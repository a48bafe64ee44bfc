#!/usr/bin/env bash
# Stops the Ray that start_ray.sh started below BASE, and nothing else (`ray stop` ends every Ray of the machine).
#
#   stop_ray.sh BASE [NAME]   all nodes, or the one of that name
set -u
base=$1
pattern=${2:-*}

session() { # pids of live processes in the session of a node; Ray's workers have process groups of their own
  ps -eo pid=,sid=,stat= | awk -v s="$1" '$2 == s && $3 !~ /^Z/ { print $1 }'
}

for file in "$base"/run/$pattern.pid; do
  [ -s "$file" ] && kill -TERM "$(cat "$file")" 2>/dev/null
done
for file in "$base"/run/$pattern.pid; do
  [ -s "$file" ] || continue
  leader=$(cat "$file")
  for _ in $(seq 100); do
    [ -z "$(session "$leader")" ] && break
    sleep 0.1
  done
  for pid in $(session "$leader"); do kill -KILL "$pid" 2>/dev/null; done
  rm -f "$file"
done
exit 0
