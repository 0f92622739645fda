"""What stages leave for one another: the names and formats of shard sets, runs, evaluations and releases.

Nobody else joins these paths or knows these keys. No torch here: a page or a status needs none to read a record.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
