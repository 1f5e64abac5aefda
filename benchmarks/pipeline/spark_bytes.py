"""How many bytes a query of our source reads, its planning included.

    python -m benchmarks.pipeline.spark_bytes STORE COLUMNS

Runs plan and tasks in one fresh process without Spark, and asks the kernel what it has read (rchar
of /proc/self/io), the second time: the first one imports modules, which are read too.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.pipeline.spark_stores import Stored


def bytes_read(store: Stored, columns: str) -> int:
    """The bytes that are read of a store, or in its folders, for the columns."""
    command = [sys.executable, "-m", "benchmarks.pipeline.spark_bytes", store.root, columns]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main(words: Sequence[str]) -> None:
    """Print the number of bytes."""
    from support.lake.plans import planned_pieces

    from aerobee.spark.options.query import parse_options
    from aerobee.spark.reading.pieces import piece_batches
    from aerobee.spark.records.columns import arrow_schema
    from aerobee.spark.records.decode import Decoder

    root, columns = words
    options = parse_options({"path": root, "columns": columns})
    decoder = Decoder(arrow_schema(options.columns))

    def read() -> int:
        before = _rchar()
        for store_piece in planned_pieces(options, options.columns, options.selection):
            for _ in piece_batches(store_piece.piece, options.selection, decoder):
                pass
        return _rchar() - before

    read()
    print(read())


def _rchar() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


if __name__ == "__main__":
    main(sys.argv[1:])
