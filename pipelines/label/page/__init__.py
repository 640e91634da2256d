"""The page: HTML, style and script, which load nothing from other places."""
