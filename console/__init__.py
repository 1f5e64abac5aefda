"""The web console over a cluster; nothing is imported until it is started."""
