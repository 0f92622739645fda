"""What every stage needs and that knows none of them: typed config, command line, console, files, errors."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
