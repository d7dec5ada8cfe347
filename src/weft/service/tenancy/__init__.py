"""Tenants: authentication, what each tenant may see, and its limits."""
