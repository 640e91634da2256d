"""Tries to break gpimaging at random: part by part, with seeds, and a table of what was found."""
