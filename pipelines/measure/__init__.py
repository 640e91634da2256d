"""The application for images of any subject: one number for each image."""
