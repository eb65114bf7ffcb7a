"""The text form of theories: vocabulary, reader, writer, grammar, prompts and random examples."""
