#!/bin/bash
# The package under a sanitizer: tests of the core, hostile files, the fuzzer. From anywhere:
#   tests/fuzz/sanitize.sh address|thread [seconds of fuzzing [tests instead of those below ...]]
# PYTHON names the interpreter, BLOSC2_PREFIX another C-Blosc2, BLOSC2_SOURCE a source tree of it, which is then instrumented,
# too (see README.md), BLOSC2_OPTIONS what CMake gets beside, TMPDIR where the environment is built and kept.
set -euo pipefail
kind=${1:-}
seconds=${2:-120}
shift $(($# < 2 ? $# : 2))
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
home=${TMPDIR:-/tmp}/blosc2-$kind${BLOSC2_SOURCE:+-source}

# Warnings about pointers that are not aligned: the formats are packed, and the compilers that are used read them in one instruction.
case $kind in
  address) flags="-fsanitize=address,undefined -fno-sanitize=alignment -fno-sanitize-recover=undefined" libraries="libasan.so libubsan.so" ;;
  thread) flags="-fsanitize=thread" libraries="libtsan.so" ;;
  *) echo "usage: $0 address|thread [seconds of fuzzing [tests ...]]" >&2; exit 2 ;;
esac

found=(-C cmake.define.Blosc2_ROOT="${BLOSC2_PREFIX:-$home/carrier/blosc2}")
if [ -n "${BLOSC2_SOURCE:-}" ]; then
  # Its codecs shift negative numbers, at which UBSan stops.
  found=(-C cmake.define.CBLOSC2_SOURCE="$(cd "$BLOSC2_SOURCE" && pwd)")
  flags=${flags/,undefined -fno-sanitize=alignment -fno-sanitize-recover=undefined/}
fi

[ -x "$home/venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$home/venv"
python=$home/venv/bin/python
"$python" -m pip install --quiet 'scikit-build-core>=0.11' 'cython>=3.3' 'numpy>=2.0' ninja cmake msgpack 'pytest>=8' 'hypothesis>=6.100'
# The C library comes with the wheel of the reference package, which must not be importable itself.
[ -n "${BLOSC2_PREFIX:-}${BLOSC2_SOURCE:-}" ] || [ -d "$home/carrier/blosc2" ] || "$python" -m pip install --quiet --no-deps --target "$home/carrier" blosc2==4.14.1
"$python" -m pip install --quiet --no-build-isolation --no-deps --force-reinstall "$root" \
  -C build-dir="$home/build" -C cmake.build-type=RelWithDebInfo "${found[@]}" \
  -C cmake.define.CMAKE_C_FLAGS="-O1 -g -fno-omit-frame-pointer $flags" ${BLOSC2_OPTIONS:-}

preload=()
for library in $libraries; do preload+=("$(gcc -print-file-name="$library")"); done
export LD_PRELOAD="${preload[*]}" PYTHONMALLOC=malloc PYTHONDONTWRITEBYTECODE=1 PYTHONFAULTHANDLER=0
# Neither tool takes the other's lines.
grep -E '^(interceptor|odr)' "$root/tests/fuzz/suppressions.txt" >"$home/address.txt" || true
grep -E '^(race|mutex|deadlock|thread|signal)' "$root/tests/fuzz/suppressions.txt" >"$home/thread.txt" || true
common="suppressions=$home/$kind.txt"
export ASAN_OPTIONS="$common:detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=3000:quarantine_size_mb=8:exitcode=66"
export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1"
export TSAN_OPTIONS="$common:exitcode=66:halt_on_error=1:die_after_fork=0"
cd "$home"
failed=0
run() {
  echo "=== $*"
  "$@" || failed=1
}

core="chunk_buffer executor codec own_decoder lz4_streams frame archive catalog checksum source small_frame checksums read_many bulk bulk_beside bulk_among_threads read_many_leaves list_values large_values"
if [ "$kind" = address ]; then
  names="$core hostile bad_input salvage check check_reports buffers buffers_of_others block_writes"
else
  # those that use threads; each takes some ten times as long
  names="executor read_many read_many_leaves leaf_batches handles publishing"
fi
tests=(-m "slow or not slow")
if [ $# -gt 0 ]; then
  tests=()
  for name in "$@"; do tests+=("$root/tests/$name"); done
else
  for name in $names; do
    found=$(find "$root/tests" -name "test_$name.py")
    [ -n "$found" ] || { echo "there is no test_$name.py" >&2; exit 2; }
    tests+=("$found")
  done
fi
# what measures memory or limits address space measures the sanitizer here
# pytest keeps what is written to stderr, and dies with it.
rm -f "$home"/report.*
with_reports() {
  local log=":log_path=$home/report"
  local status=0 report
  ASAN_OPTIONS+=$log UBSAN_OPTIONS+=$log TSAN_OPTIONS+=$log "$@" || status=1
  # Processes that tests start report, too, and nobody may look at how they end.
  for report in "$home"/report.*; do
    # Tests ask for more memory than there is, which is only warned of.
    [ -e "$report" ] && grep -qvE '^(==[0-9]+==)?WARNING: [A-Za-z]+ failed to allocate' "$report" || continue
    cat "$report"
    echo "reported in $report" >&2
    status=1
  done
  return $status
}
run with_reports env PYTHONPATH="$root" "$python" -m pytest -q -p no:cacheprovider --rootdir "$root" -c "$root/pyproject.toml" \
  -k "not memory and not address_space and not leaf_costs and not interrupt and not signal" "${tests[@]}"
[ "$seconds" = 0 ] || run "$python" "$root/tests/fuzz/run.py" --corpus --seconds "$seconds" --keep "$home/failures"
exit $failed
