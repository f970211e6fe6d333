"""A string -> a name: of a file, a model, a machine, a deployment. Names reach shells, units, addresses and terminals.

A control character in one is refused where a record is made or read, so that nothing after it has to think of it. That
is said as one line, not as a fault of the record: whoever gave the name can give another.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from upright.base.foreign import fit

FitName = Annotated[str, AfterValidator(fit)]
