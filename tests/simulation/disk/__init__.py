"""A disk that forgets, tears, fails and is slow, below the product's store; see ../README.md."""
