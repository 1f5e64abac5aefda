"""How servers get their settings, and keep small files: RocketMQ's keys and text formats."""
