"""Which examples train, which select the best epoch, and which are judged."""
