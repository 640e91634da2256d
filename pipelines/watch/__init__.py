"""After deployment: whether new images are like the held-out ones, and whether a guarantee still holds."""
