"""One client id's presence at the brokers: timers, heartbeats, requests from brokers, rounds."""
