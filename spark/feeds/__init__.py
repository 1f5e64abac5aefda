"""Where messages come from, stores at rest or a cluster: one interface, asked by every planner."""
