"""`gpimaging label`: a page that asks for the labels that teach most, and learns from each answer at once."""
