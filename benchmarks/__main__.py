"""Print all ratios, and fail where a goal is missed."""

from __future__ import annotations

import sys

from benchmarks import checkpointing, damage, imports, loading, processes, ranks, raw_data, submission, template


def main() -> int:
    """Run the benchmarks one after another."""
    missed = False
    for module in (imports, checkpointing, damage, loading, ranks, processes, submission, raw_data, template):
        for row in module.rows():
            print(row, flush=True)
            missed = missed or (row.goal is not None and row.ratio > row.goal)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
