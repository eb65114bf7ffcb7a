"""Output that several commands share: the console, files, galleries, HTML pages, and help on configuration keys."""
