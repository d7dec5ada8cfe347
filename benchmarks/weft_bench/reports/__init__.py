"""From a run's figures to what people read: ratios and goals, Markdown tables, plots."""
