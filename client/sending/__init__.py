"""Send messages: choose a queue, write the request, try again elsewhere."""
