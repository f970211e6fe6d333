"""How the documentation is built: `sphinx-build -W`, so that a broken link or an orphaned page fails the build."""

from upright import __version__

project = "Upright"
copyright = "the Upright developers"
release = __version__
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_extra_path = ["llms.txt"]
html_theme = "furo"
html_title = "Upright"
