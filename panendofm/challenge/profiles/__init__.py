"""One file a challenge: its metrics, rules and published rows. See `panendofm/challenge/profile.py`."""
