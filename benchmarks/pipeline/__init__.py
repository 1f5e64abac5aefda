"""The Spark pipeline: what it costs, beside Spark's own sources and by hand."""
