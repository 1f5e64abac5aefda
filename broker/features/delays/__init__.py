"""Messages that wait for their time, by RocketMQ's levels."""
