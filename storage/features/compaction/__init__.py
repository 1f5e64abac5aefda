"""The copies of compaction topics: the latest record of each key, in RocketMQ's files."""
