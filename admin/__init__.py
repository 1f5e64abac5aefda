"""Administration of a cluster over the remoting protocol."""
