"""Single files: images, videos, tables, folders of classes, addresses; writing that is whole or absent."""
