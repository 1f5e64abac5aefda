"""Message traces as RocketMQ's clients write them: who sent and who consumed which message."""
