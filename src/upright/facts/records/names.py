"""The type of a name in a record: of a file, a model, a machine. Names reach shells and terminals.

A control character in one is refused where a record is made or read, so that nothing after it has to think of it. That
is said as one line, not as a fault of the record: whoever gave the name can give another.
"""

from typing import Annotated

from pydantic import AfterValidator

from upright.base.untrusted_text import checked_name

SafeName = Annotated[str, AfterValidator(checked_name)]
