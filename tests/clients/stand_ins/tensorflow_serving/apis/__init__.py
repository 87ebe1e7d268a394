"""Messages and stubs by the names that clients import."""
