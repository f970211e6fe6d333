"""A deployment's directory <-> one file to send: redacted, bounded, the same bytes every time."""

from upright.evidence.bundle.manifest import Manifest as Manifest
from upright.evidence.bundle.manifest import WrittenBundle as WrittenBundle
from upright.evidence.bundle.packing import bundle as bundle
from upright.evidence.bundle.packing import bundle_contents as bundle_contents
from upright.evidence.bundle.unpacking import Unpacked as Unpacked
from upright.evidence.bundle.unpacking import read_bundle as read_bundle
