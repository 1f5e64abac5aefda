"""Has the real RocketMQ write its tables and keeps them in `config/`.

PYTHONPATH=tests python tests/golden/capture_config.py
"""

import json
import tempfile
from pathlib import Path

from support.golden.tables import FILES, GROUP, OFFSETS, TOPIC, fill
from support.interop.rocketmq_server import RocketMQ

CONFIG = Path(__file__).parent / "config"


def main() -> None:
    """Make a topic and a group and commit offsets; keep what the broker left as it stopped."""
    CONFIG.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, RocketMQ(Path(directory)) as server:
        fill(server.broker)
        server.stop()
        for name in FILES:
            data = (server.store / "config" / name).read_bytes()
            (CONFIG / name).write_bytes(data)
            print(f"{name}: {len(data)} bytes")
    print(json.dumps({"topic": TOPIC, "group": GROUP, "offsets": OFFSETS}))


if __name__ == "__main__":
    main()
