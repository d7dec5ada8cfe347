"""Tenants: who asks, what each may see, and how much each may use."""
