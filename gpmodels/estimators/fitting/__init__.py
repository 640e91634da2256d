"""How estimators are fitted, and what each fit leaves: what was learned in words, and files."""
