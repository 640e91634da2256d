"""A run: heads trained from one network, judged and exported."""
