"""A fuzzer that knows the formats; `python tests/fuzz/run.py --help`, and README.md."""
