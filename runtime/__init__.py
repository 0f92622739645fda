"""What every stage needs and that knows none of them: typed config, command line, console, files, errors."""
