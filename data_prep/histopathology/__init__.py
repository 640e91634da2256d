"""Images and slides of tissue become prepared patches."""
