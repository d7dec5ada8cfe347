"""The command `weft`: queries and streams of a service or of a state directory, and the service itself."""

import sys
from importlib import import_module

from weft.errors import MissingExtra
from weft.extras import extra


def main() -> int:
    """Run the command that the command line names, and return its exit code."""
    try:
        with extra("cli"):
            app = import_module("weft.cli.app")
    except MissingExtra as error:
        sys.stderr.write(f"weft: {error}\n")
        return 1
    code: int = app.main()
    return code


__all__ = ["main"]
