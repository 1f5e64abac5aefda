"""Records as columns: headers, properties, hosts, bodies, and which rows are wanted."""
