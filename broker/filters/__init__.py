"""Which messages of a queue a subscription wants: tags, and SQL92 expressions."""
