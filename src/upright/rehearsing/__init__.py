"""Recipe + a model without weights -> Rehearsal: find out before the download."""

from upright.rehearsing.husk import Husk as Husk
from upright.rehearsing.husk import husk as husk
from upright.rehearsing.rehearse import rehearse as rehearse
