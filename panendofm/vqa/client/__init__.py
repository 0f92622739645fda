"""Asking models: requests, retries, resume, costs."""
