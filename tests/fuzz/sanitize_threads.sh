#!/bin/bash
# Threads without a GIL under ThreadSanitizer: sixteen that use one store, then tests whose threads share one read. From anywhere:
#   PYTHON=/path/to/python3.13t tests/fuzz/sanitize_threads.sh [seconds for each case of the stress [tests instead of those below ...]]
# With 0 seconds only the tests are run. It fails if a test does, or if anything is reported, which is shown at the end.
# The interpreter has to be built with --disable-gil --with-thread-sanitizer: else TSan does not see how CPython's own locks,
# reference counts and allocator order what our modules do, and reports what is none. BLOSC2_PREFIX names another C-Blosc2.
set -euo pipefail
seconds=${1:-60}
shift $(($# < 1 ? $# : 1))
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
home=${TMPDIR:-/tmp}/blosc2-threads
: "${PYTHON:?names a free-threaded interpreter that was built with ThreadSanitizer}"
"$PYTHON" - <<'CHECK'
import sysconfig
given = sysconfig.get_config_var("CONFIG_ARGS") or ""
if not sysconfig.get_config_var("Py_GIL_DISABLED") or "--with-thread-sanitizer" not in given:
    raise SystemExit(f"this interpreter was configured with {given}; --disable-gil --with-thread-sanitizer are needed")
CHECK

# Tests ask for more memory than there is, which is no fault.
export TSAN_OPTIONS="suppressions=$root/tests/fuzz/suppressions_threads.txt:exitcode=66:halt_on_error=0:die_after_fork=0:history_size=4:allocator_may_return_null=1"
mkdir -p "$home"
[ -x "$home/venv/bin/python" ] || "$PYTHON" -m venv "$home/venv"
python=$home/venv/bin/python
"$python" -m pip install --quiet --only-binary numpy,hypothesis numpy 'scikit-build-core>=0.11' 'cython>=3.3' ninja cmake msgpack 'pytest>=8' \
  'hypothesis>=6.100' 'fsspec>=2024.6'
prefix=${BLOSC2_PREFIX:-$home/carrier/blosc2}
if [ ! -d "$prefix" ]; then
  # No wheel of it is for this interpreter; its library is the same for all.
  "$python" -m pip download --quiet --no-deps --only-binary :all: --python-version 3.13 --implementation cp --abi cp313 \
    --dest "$home/carrier" blosc2==4.14.1
  "$python" -m zipfile -e "$home"/carrier/blosc2-4.14.1-*.whl "$home/carrier"
fi
# Cython runs in an interpreter without TSan, where it takes a minute.
[ -x "$home/tools/bin/python" ] || "${TOOLS_PYTHON:-python3}" -m venv "$home/tools"
"$home/tools/bin/python" -m pip install --quiet 'cython>=3.3' numpy
"$python" -m pip install --quiet --no-build-isolation --no-deps --force-reinstall "$root" \
  -C build-dir="$home/build" -C cmake.build-type=RelWithDebInfo -C cmake.define.Blosc2_ROOT="$prefix" -C cmake.define.CYTHON_PYTHON="$home/tools/bin/python" \
  -C cmake.define.CMAKE_C_FLAGS="-O1 -g -fno-omit-frame-pointer -fsanitize=thread"

tests=()
if [ $# -gt 0 ]; then
  for name in "$@"; do tests+=("$root/tests/$name"); done
else
  for name in block_threads special_boxes shared_blocks cold_reads read_many failing_threads loader batch_memory edits_beside file_appender; do
    found=$(find "$root/tests" -name "test_$name.py")
    [ -n "$found" ] || { echo "there is no test_$name.py" >&2; exit 2; }
    tests+=("$found")
  done
fi
cd "$home"
# pytest keeps what is written to stderr, and shows nothing of tests that pass.
rm -f "$home"/report.*
export TSAN_OPTIONS="$TSAN_OPTIONS:log_path=$home/report" PYTHON_GIL=0 BLOSC2_STRESS_SECONDS=$seconds
failed=0
run() {
  "$python" -m pytest -q -p no:cacheprovider -o faulthandler_timeout=0 --rootdir "$root" -c "$root/pyproject.toml" "$@" || failed=1
}
[ "$seconds" = 0 ] || run -m slow "$root/tests/processes/test_thread_stress.py"
run "${tests[@]}"
# Processes that tests start report, too, and nobody may look at how they end.
for report in "$home"/report.*; do
  [ -e "$report" ] || continue
  cat "$report"
  echo "reported in $report" >&2
  failed=1
done
exit $failed
