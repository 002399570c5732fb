"""The benchmark: this library beside every peer. docs/benchmarks.md tells how to read it."""
