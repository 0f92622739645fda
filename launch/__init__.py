"""The stages as one pipeline: the demo, jobs on a cluster, plan, status and report."""
