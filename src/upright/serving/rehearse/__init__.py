"""Recipe + a model without weights -> Rehearsal: find out before the download."""

from upright.serving.rehearse.husk import Husk as Husk
from upright.serving.rehearse.husk import husk as husk
from upright.serving.rehearse.rehearse import rehearse as rehearse
