"""A local Spark session that needs no set-up: Java, Python, scripts."""
