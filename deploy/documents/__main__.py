"""`make docs`: build the site of documents into `build/docs/site`, strictly."""

import argparse
import sys
from pathlib import Path

from deploy.documents.building import BuildError, build


def main() -> int:
    """Build, say what came of it, and end with 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=Path("build/docs"))
    try:
        site = build(parser.parse_args().into)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{site.pages} pages: {site.folder / 'index.html'}")
    print(f"links to {len(site.elsewhere)} other addresses, not looked at: {site.listed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
