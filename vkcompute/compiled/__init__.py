"""Specializations, their caches, plans, launches and reports: the parts that all compiled programs share."""
