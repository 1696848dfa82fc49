"""Cold starts: the help of the command and the import of dpjax, each in a new process, against `import jax` in a new process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from benchmarks.harness import Case


def cases() -> list[Case]:
    bare, jax = _fresh("pass"), _fresh("import jax")
    return [
        Case(
            work="`dpjax --help`, cold (aim: a third of `import jax`)",
            run=_fresh("import sys; sys.argv = ['dpjax', '--help']; from dpjax.cli import main; main()"),
            peers={"import jax": jax},
            target={"import jax": 3},
            limit=("Python itself", bare),
        ),
        Case(
            work="`import dpjax`, cold (aim: at most 1.1 times `import jax`)",
            run=_fresh("import dpjax"),
            peers={"import jax": jax},
            target={"import jax": 0.91},
            limit=("Python itself", bare),
        ),
        Case(
            work="`import dpjax.chains, dpjax.simplex, dpjax.trajectory`, cold",
            run=_fresh("import dpjax.chains, dpjax.simplex, dpjax.trajectory"),
            peers={"import jax": jax},
            limit=("Python itself", bare),
        ),
    ]


def _fresh(code: str) -> Callable[[], object]:
    command = [sys.executable, "-c", code]
    return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
