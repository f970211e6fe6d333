"""log -> Diagnosis -> remedy: know why it died, and what to change."""

from upright.serving.diagnose.diagnose import Around as Around
from upright.serving.diagnose.diagnose import cause_in as cause_in
from upright.serving.diagnose.diagnose import diagnose as diagnose
from upright.serving.diagnose.diagnose import diagnose_file as diagnose_file
from upright.serving.diagnose.marks import engine_of as engine_of
from upright.serving.diagnose.remedies import apply as apply
