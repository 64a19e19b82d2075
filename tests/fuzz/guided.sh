#!/bin/bash
# Guided fuzzing of one target, with coverage of the compiled modules, under ASan. From anywhere:
#   tests/fuzz/guided.sh frame|archive|catalog|embedded|metadata [seconds [libFuzzer's options ...]]
# PYTHON names an interpreter that atheris has a wheel for, TMPDIR where the environment and what is found are kept.
# It needs clang. What fails is kept in $TMPDIR/blosc2-guided/TARGET, with the line that plays it again.
set -euo pipefail
target=${1:?which target}
seconds=${2:-300}
shift $(($# < 2 ? $# : 2))
fuzz=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$fuzz/../..
home=${TMPDIR:-/tmp}/blosc2-guided

[ -x "$home/venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$home/venv"
python=$home/venv/bin/python
"$python" -m pip install --quiet atheris 'scikit-build-core>=0.11' 'cython>=3.3' 'numpy>=2.0' ninja cmake msgpack
[ -d "$home/carrier" ] || "$python" -m pip install --quiet --no-deps --target "$home/carrier" blosc2==4.14.1
CC=clang "$python" -m pip install --quiet --no-build-isolation --no-deps --force-reinstall "$root" \
  -C build-dir="$home/build" -C cmake.build-type=RelWithDebInfo -C cmake.define.Blosc2_ROOT="$home/carrier/blosc2" \
  -C cmake.define.CMAKE_C_FLAGS="-O1 -g -fno-omit-frame-pointer -fsanitize=address,fuzzer-no-link"

grep ^interceptor "$fuzz/suppressions.txt" >"$home/suppressions.txt"
export ASAN_OPTIONS="suppressions=$home/suppressions.txt:detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=3000:quarantine_size_mb=8"
export PYTHONMALLOC=malloc PYTHONDONTWRITEBYTECODE=1
library=$("$python" -c 'import atheris; print(atheris.path())')/asan_with_fuzzer.so
guided() { LD_PRELOAD=$library "$python" "$fuzz/guided.py" "$@"; }
guided seeds "$target" "$home/seeds/$target"
mkdir -p "$home/$target/corpus"
cd "$home/$target"
guided run "$target" -max_total_time="$seconds" -max_len=8192 -timeout=60 \
  -rss_limit_mb=4096 -print_final_stats=1 "$@" "$home/$target/corpus" "$home/seeds/$target" && exit
for found in crash-* timeout-* oom-*; do
  [ -e "$found" ] || continue
  echo "again with: python $fuzz/run.py --replay $(guided case "$target" "$PWD/$found")"
done
exit 1
