"""Messages as bytes, wherever they lie: records, batches, properties, bodies, ids, layouts."""
