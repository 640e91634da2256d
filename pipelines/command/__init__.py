"""What every command needs: settings, options, console and folders. Nothing here imports TensorFlow."""
