"""Output shared by several commands: the console, files, galleries, HTML pages, and help on configuration keys."""
