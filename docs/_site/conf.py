"""Sphinx's configuration, for the sources that tree.py lays out."""

project = "tf_cudnn_rnn"
author = "The authors of tf_cudnn_rnn"
copyright = "the authors of tf_cudnn_rnn, Apache License 2.0"  # noqa: A001 Sphinx's name

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4  # the anchors that GitHub makes, too

# Strict: a name that leads nowhere is an error.
nitpicky = True

html_theme = "furo"
html_title = "tf_cudnn_rnn"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}

python_maximum_signature_line_length = 72
add_module_names = False
toc_object_entries = False  # each has a heading
highlight_language = "none"
pygments_style = "friendly"
pygments_dark_style = "native"
