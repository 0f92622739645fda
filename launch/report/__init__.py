"""`report.html` of a run: one page that opens without a network."""

from launch.report.page import write_report

__all__ = ["write_report"]
