"""Where jobs execute: local processes by default."""
