"""The index of message keys: RocketMQ's files, built from the log after the commit."""
