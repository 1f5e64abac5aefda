"""An asyncio client for RocketMQ brokers: producers and consumers."""
