"""scikit-learn estimators on feature matrices."""
