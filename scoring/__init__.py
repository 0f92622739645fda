"""Every figure, interval and test that needs no network. No torch here, so that files alone can be scored."""
