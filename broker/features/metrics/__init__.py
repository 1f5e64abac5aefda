"""The metrics handed to a collector by OpenTelemetry's protocol, again and again."""
