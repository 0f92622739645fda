"""What a machine is asked before it trains: `launch doctor` judges the answers. Public, like the package itself."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
