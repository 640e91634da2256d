"""Traditional lane detection: image algorithms that find the vanishing point and learn nothing beforehand."""
