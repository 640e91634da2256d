"""Single files: images, videos, tables, folders of classes, and writing that leaves no half-written file."""
