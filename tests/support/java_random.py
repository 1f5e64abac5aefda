"""The numbers that java.util.Random gives for a seed."""


class JavaRandom:
    """As much of java.util.Random as captured tables were made with."""

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ 0x5DEECE66D) & ((1 << 48) - 1)

    def below(self, bound: int) -> int:
        """Return what nextInt(bound) does."""
        if bound & (bound - 1) == 0:
            return bound * self._next() >> 31
        while True:
            bits = self._next()
            value = bits % bound
            if bits - value + bound - 1 < 1 << 31:  # Java's int overflows there, and draws again
                return value

    def _next(self) -> int:
        self._state = (self._state * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
        return self._state >> 17
