"""Transactions: messages that nobody sees until their producer has decided about them."""
