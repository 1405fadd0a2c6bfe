"""torchrun, plus one line of JSON on stdout with the exit codes of failed processes."""

from __future__ import annotations

import json
import sys

from figeval.frontend import end_quickly


def main() -> None:
    """Run `torchrun ARGUMENTS …` and report failed processes as JSON, since its own report is meant for people."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import parse_args, run

    end_quickly()
    try:
        run(parse_args(sys.argv[1:]))
    except ChildFailedError as error:
        codes = {process: failure.exitcode for process, failure in error.failures.items()}
        print(json.dumps({"ended": [codes]}), flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
