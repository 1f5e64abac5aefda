"""Asks RocketMQ's own filter classes what they make of thousands of expressions and messages.

PYTHONPATH=tests python tests/golden/capture_filters.py

`filters/messages.json` lists property strings. Each line of `filters/answers.jsonl` is an
expression and one letter for each of them: T true, F false, ? unknown (null), ! an exception while
evaluating; a number before a letter repeats it. Or it is an expression and an object with the text
of the exception that refused it.
"""

import itertools
import json
import subprocess
from pathlib import Path
from urllib.parse import quote_plus, unquote_plus

from support.golden import filters
from support.interop import toolchain

FOLDER = Path(__file__).parent / "filters"


def main() -> None:
    """Run EvaluateFilters.java over the table and keep what it says."""
    messages = filters.properties()
    expressions = list(dict.fromkeys(filters.expressions()))
    lines = [str(len(messages)), *map(quote_plus, messages), *map(quote_plus, expressions)]
    program = str(FOLDER / "EvaluateFilters.java")
    finished = subprocess.run(
        [toolchain.tool("java"), "-cp", toolchain.classpath("server-5.5.0"), program],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    answers = finished.stdout.splitlines()
    kept = [
        json.dumps([expression, _answer(line)])
        for expression, line in zip(expressions, answers, strict=True)
    ]
    (FOLDER / "messages.json").write_text(json.dumps(messages, indent=0) + "\n")
    (FOLDER / "answers.jsonl").write_text("\n".join(kept) + "\n")
    print(f"{len(kept)} expressions over {len(messages)} messages")


def _answer(line: str) -> str | dict[str, str]:
    kind, text = line.split(" ", 1)
    if kind == "answers":
        runs = ((letter, len(list(run))) for letter, run in itertools.groupby(text))
        return "".join(f"{count if count > 1 else ''}{letter}" for letter, count in runs)
    return {"refused": unquote_plus(text).replace("\r\n", "\n").partition("\nWas expecting")[0]}


if __name__ == "__main__":
    main()
