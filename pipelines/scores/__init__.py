"""From outputs to scores, tables, figures and the report."""
