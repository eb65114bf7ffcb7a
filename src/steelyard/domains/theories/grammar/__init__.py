"""Theories as text: vocabulary, reader, writer, grammar, starting points and random examples."""
