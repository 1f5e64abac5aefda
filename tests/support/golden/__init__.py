"""Reads and records what the real RocketMQ said: frames, stores, answers."""
