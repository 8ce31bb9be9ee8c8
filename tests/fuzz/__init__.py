"""Nonsense for everything that reads what servers say: ``make fuzz``, and a tenth in
the suite."""
