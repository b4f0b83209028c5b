#!/bin/sh
# What mpiexec uses in place of ssh: launch.sh [OPTION]... node<K> COMMAND...
while [ "${1#-}" != "$1" ]; do shift; done
node=${1#node}
shift
command="$*"
# shellcheck disable=SC2086
set -- $MATRIXFSDP_CLUSTER_HOLDERS
shift "$node"
exec nsenter --target "$1" --net --ipc --uts --mount sh -c "$command"
