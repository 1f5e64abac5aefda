"""Units of batch queues (`queue.type=BatchCQ`): RocketMQ's files, kept beside our entries."""
