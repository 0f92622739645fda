"""Every figure, interval and test that needs no network. No torch here, so that files alone can be scored.

Each module is one subject and public as it is (`from scoring.intervals import group_weights`); what begins with an
underscore is private.
"""
