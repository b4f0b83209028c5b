#!/usr/bin/env bash
# One rank of train.sh's step: rank.sh MARK PROGRAM [ARGUMENT]...
# Code 75 (stopped by a signal, all is saved) becomes the file MARK and code 0: to -K1 any other code is a failure, and it
# kills the ranks that leave a moment later. A rank that the signal has met before it could listen has nothing to save.
mark=$1
shift
trap : TERM USR1 # for the program; bash waits for it
"$@"
code=$?
case $code in
  75 | 138 | 143) # 128 + USR1, 128 + TERM
    : >"$mark"
    exit 0
    ;;
esac
exit "$code"
