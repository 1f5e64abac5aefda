"""RocketMQ's rules about names, attributes and words: pure functions and constants."""
