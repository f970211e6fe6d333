"""log -> Diagnosis -> remedy: know why it died, and what to change."""

from upright.diagnosing.diagnose import Around as Around
from upright.diagnosing.diagnose import cause_in as cause_in
from upright.diagnosing.diagnose import diagnose as diagnose
from upright.diagnosing.diagnose import diagnose_file as diagnose_file
from upright.diagnosing.marks import engine_of as engine_of
from upright.diagnosing.remedies import apply as apply
