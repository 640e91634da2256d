"""Microscopy sequences become prepared candidates for cell events."""
