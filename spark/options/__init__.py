"""What a query or a sink was asked for: options by their names, checked, with what to do."""
