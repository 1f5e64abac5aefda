"""Filter expressions and property strings to hold our SQL92 evaluator to RocketMQ's."""

import random
from collections.abc import Iterator
from typing import Final

VALUES: Final = [
    "0", "1", "-1", "+5", "5", "05", "10", "100", "2147483647", "2147483648", "-2147483648",
    "9223372036854775807", "9223372036854775808", "5.0", "5.5", "-.5e1", "1e400", "1e-400", "-0.0",
    "0.0", "NaN", "-Infinity", "infinity", "0x1p3", "0x10", "5d", "5f", "5L", " 5 ", "5_0",
    "\u0665",
    "\uff15", "\U0001d7d3", "true", "TRUE", "false", "yes", "x", "xy", "yx", "it's", "é",
    "\U0001f600",
    "TagA", "=", "a b", "\x0151",
]  # fmt: skip
WORDS: Final = [
    "AND", "OR", "NOT", "IS", "NULL", "IN", "BETWEEN", "CONTAINS", "STARTSWITH", "ENDSWITH", "TRUE",
    "FALSE", "and", "Or", "nOt", "a", "b", "missing", "TAGS", "_x$1", "$", "notes", "'x'", "'5'",
    "''", "'it''s'", "'é'", "5", "0", "1", "-1", "5L", "5l", "05", "5.", ".5", "5.5E1", "1e400",
    "0.0", "2147483648", "9223372036854775807", "9223372036854775808", "(", ")", ",", "=", "<>",
    ">", ">=", "<", "<=", "+", "-", "--", "-- x\n", "/* y */", "/**/", "/*", "\t", "\n", "#", "%",
    "!=", "a.b", "1a", "'", '"x"', "é",
]  # fmt: skip
OPERANDS: Final = [
    "a", "b", "missing", "'x'", "'5'", "'true'", "''", "5", "-5", "2147483647", "3000000000", "5L",
    "5.0", "5.5", "-5.5", "1e300", "TRUE", "FALSE", "NULL", "(a = 'x')", "-a", "+a", "+5", "- -5",
    "-TRUE", "-(a > 5)", "(NOT a)", "(a IS NULL)",
]  # fmt: skip
LITERALS: Final = ["'x'", "'5'", "''", "'it''s'", "'é'", "'TagA'", "'y'", "5", "a", "NULL"]
COMPARED: Final = ["=", "<>", ">", ">=", "<", "<="]
SEARCHED: Final = ["CONTAINS", "STARTSWITH", "ENDSWITH"]
KNOWN: Final = [
    "NOT a = 1", "NOT (a = 1)", "NOT NOT a", "a", "(a)", "NULL", "NOT NULL", "TRUE OR a > 5",
    "a > 5 OR TRUE", "a = 5 = TRUE", "a = 5 = b", "a IS NULL IS NULL", "a IS NOT NULL = TRUE",
    "a = 1 b = 2", "a = 1) AND (b = 2", "a = 1 #", "a = 1 b #", "a = 05", "a = 1 -- end",
    "a = 1 -- end\nAND b = 5", "a = 1 --\r\nAND b = 5", "a /* x */ = /* y **/ 1", "a = 1 /* open",
    "a = 1 /*/ x */ AND b = 5", "a = --5", "a = - - 5", "a=1AND b=5", "a=1and b=5", "5a = 1",
    "a = 'x' 'y'", "a IN ('x',)", "a IN ()", "a IN 'x'", "a IN (5)", "a IN ('1','2','3','4','5')",
    "a NOT IN ('1','2','3','4','5','x')", "a = 9223372036854775808", "a = -9223372036854775808",
    "a = 9223372036854775807L", "a > 0.0", "a > 1e400", "a > 1e-400", "a > -1e308",
    "a BETWEEN 5 AND 1",
    "a BETWEEN -5 AND -10", "a BETWEEN 1 AND 5 AND b = 5", "a NOT BETWEEN 1 AND 5 OR b = 5",
    "a BETWEEN b AND 100", "a BETWEEN 1 AND 1", "a BETWEEN 1 AND NULL", "a BETWEEN '1' AND '5'",
    "a > 1 > 2", "(a > 1) > 2", "a CONTAINS 'x' = TRUE", "a IS", "a IS NOT", "a IS 5", "a NOT 5",
    "= 5", "a = 5 AND", "()", "(a", "a)", "", " ", "'x'", "5", "-a", "+TRUE", "-TRUE", "a AND 5",
    "5 AND a", "a OR 'x'", "NOT 5", "NOT 'x'", "5 IN ('5')", "(a) IN ('5')", "-a IN ('5')",
    "'5' CONTAINS '5'", "5 CONTAINS '5'", "a CONTAINS 5", "a CONTAINS b", "TRUE = 'true'",
    "'true' = TRUE", "TRUE = 5", "5 = TRUE", "5 <> TRUE", "5 = 5L", "5 = 5.0", "5.0 = 5",
    "9007199254740993 = 9007199254740992.0", "a = TRUE", "(a = 5) = 'true'", "a = (b = 5)",
    "a = -NULL", "(a > 5) IS NULL", "-(a > 5) IS NULL", "TAGS = 'TagA'", "tags = 'TagA'",
    "_x$1 IS NOT NULL", "$ IS NULL", "a = 'x' and b", "a\u00a0= 1", "a = '\u2603'", "ſ = 1",
    "a ıs null", "a = 1 \x0b", "a = '\n'", "a <> '' AND a <> ' '", "a != 5", "a == 5", "a => 5",
    "a = 5.5.5", "a = 5e", "a = 5e5e5", "a = .", "a = 1..2", "a = 0x10", "a = 5D", "a = 5f",
]  # fmt: skip


def properties() -> list[str]:
    """Return property strings: one value each, then several, broken and repeated ones."""
    single = [f"a\x01{value}\x02" for value in VALUES]
    pairs = [
        f"b\x01{second}\x02TAGS\x01TagA\x02a\x01{first}"
        for first, second in zip(VALUES, VALUES[7:] + VALUES[:7], strict=True)
    ]
    odd = [
        "", "\x02", "a\x01\x02", "a\x015", "a\x011\x02a\x015\x02", "a\x015\x02a\x01\x02",
        "\x01a\x02",
        "aa\x015\x02", "xa\x015\x02", "a\x01\x015\x02", "_x$1\x01x\x02$\x01y\x02",
        "b\x01a\x015\x02",
        "notes\x01x\x02missing\x01\x02", "a\x02b\x015\x02", "\x02\x02a\x015\x02\x02",
    ]  # fmt: skip
    return single + pairs + odd


def expressions(seed: int = 92) -> Iterator[str]:
    """Yield expressions: known oddities, every operator with every operand, random ones."""
    choose = random.Random(seed)
    yield from KNOWN
    for left in OPERANDS:
        for sign in COMPARED:
            yield from (f"{left} {sign} {right}" for right in choose.sample(OPERANDS, 14))
        for word in SEARCHED:
            yield from (f"{left} {word} {text}" for text in LITERALS)
            yield from (f"{left} NOT {word} {text}" for text in choose.sample(LITERALS, 4))
        yield f"{left} IN ('x', '5')"
        yield f"{left} NOT IN ('x', '5', '')"
        yield f"{left} IS NULL"
        yield f"{left} IS NOT NULL"
        for _ in range(12):
            low, high = choose.choice(OPERANDS), choose.choice(OPERANDS)
            yield f"{left} {choose.choice(['', 'NOT '])}BETWEEN {low} AND {high}"
    for _ in range(1000):
        yield condition(choose, 4)
    for _ in range(1200):
        yield " ".join(choose.choices(WORDS, k=choose.randint(1, 7)))


def condition(choose: random.Random, depth: int) -> str:
    """Make up a condition that is well formed, though perhaps of types that do not fit."""
    if depth and choose.random() < 0.6:
        left, right = condition(choose, depth - 1), condition(choose, depth - 1)
        return choose.choice([
            f"{left} AND {right}", f"{left} OR {right}", f"NOT ({left})", f"({left} OR {right})",
            f"({left}) IS NULL", f"({left}) = ({right})",
        ])  # fmt: skip
    left = choose.choice(["a", "b", "missing", "TAGS", choose.choice(OPERANDS)])
    text = choose.choice(LITERALS[:7])
    return choose.choice([
        f"{left} {choose.choice(COMPARED)} {choose.choice(OPERANDS)}",
        f"{left} {choose.choice(SEARCHED)} {text}", f"{left} NOT {choose.choice(SEARCHED)} {text}",
        f"{left} IN ({text}, 'TagA')", f"{left} NOT IN ({text})", f"{left} IS NOT NULL",
        f"{left} BETWEEN -5 AND {choose.choice(['5', '5.5', '3000000000'])}",
    ])  # fmt: skip
