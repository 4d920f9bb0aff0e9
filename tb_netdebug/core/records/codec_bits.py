"""Bit-level reader and writer of `codec_twin`, least significant bit first, with Rice and Golomb codes."""

from __future__ import annotations

# The longest unary prefix of each code; a Rice code with as many ones goes on with a plain number.
UNARY_LIMIT = 24
GOLOMB_LIMIT = 32


class BitWriter:
    """The bits of one row, collected in an integer."""

    def __init__(self) -> None:
        self._held = 0
        self._bits = 0

    def put(self, value: int, bits: int) -> None:
        self._held |= value << self._bits
        self._bits += bits

    def rice(self, value: int, k: int) -> None:
        """Write a Rice code, short for values around 2**k; a far larger value is written in full."""
        ones = min(value >> k, UNARY_LIMIT)
        if ones < UNARY_LIMIT:
            self.put((1 << ones) - 1, ones + 1)
            self.put(value & ((1 << k) - 1), k)
        else:
            self.put((1 << ones) - 1, ones)
            self.put(value.bit_length() - 1, 6)
            self.put(value, value.bit_length())

    def golomb(self, value: int, k: int) -> None:
        """Write the exponential Golomb code of order k."""
        x = (value >> k) + 1
        n = x.bit_length() - 1
        self.put((1 << n) - 1, n + 1)
        self.put(x & ((1 << n) - 1), n)
        self.put(value & ((1 << k) - 1), k)

    def row(self) -> bytes:
        return self._held.to_bytes((self._bits + 7) // 8, "little")


class BitReader:
    """The bits of one row, read in order; reading past the end raises ValueError."""

    def __init__(self, row: bytes) -> None:
        self._held = int.from_bytes(row, "little")
        self._left = 8 * len(row)

    def get(self, bits: int) -> int:
        if bits > self._left:
            raise ValueError("the sketches are damaged: a row is cut off")
        value = self._held & ((1 << bits) - 1)
        self._held >>= bits
        self._left -= bits
        return value

    def rice(self, k: int) -> int:
        ones = self._unary(UNARY_LIMIT)
        if ones < UNARY_LIMIT:
            return ones << k | self.get(k)
        return self.get(self.get(6) + 1)

    def golomb(self, k: int) -> int:
        n = self._unary(GOLOMB_LIMIT)
        x = (1 << n | self.get(n)) - 1
        return x << k | self.get(k)

    def _unary(self, limit: int) -> int:
        ones = 0
        while ones < limit and self.get(1):
            ones += 1
        return ones


def zigzag(value: int) -> int:
    return 2 * value if value >= 0 else -2 * value - 1


def unzigzag(code: int) -> int:
    return -(code >> 1) - 1 if code & 1 else code >> 1


def fold(value: int, guess: int) -> int:
    """Return a count's signed distance from its guess as a non-negative code, small for a good guess.

    A count is never negative: above twice the guess only one side is left, and the code is the count itself.
    """
    if value > 2 * guess:
        return value
    return 2 * (value - guess) if value >= guess else 2 * (guess - value) - 1


def unfold(code: int, guess: int) -> int:
    if code > 2 * guess:
        return code
    return guess - (code >> 1) - 1 if code & 1 else guess + (code >> 1)
