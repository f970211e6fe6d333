"""A deployment's directory <-> one file to send: redacted, bounded, the same bytes every time."""

from upright.bundling.manifest import Bundled as Bundled
from upright.bundling.manifest import Manifest as Manifest
from upright.bundling.packing import bundle as bundle
from upright.bundling.packing import bundle_contents as bundle_contents
from upright.bundling.unpacking import Unpacked as Unpacked
from upright.bundling.unpacking import read_bundle as read_bundle
