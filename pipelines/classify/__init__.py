"""The application for images of any subject: one class for each image."""
