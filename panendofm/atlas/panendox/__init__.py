"""The ten tasks of PanEndoX: their classes, the published values, and which classes can be reached."""
