"""The record for regulators: plan.yaml, results, certificates and the checklists that ask for them."""
