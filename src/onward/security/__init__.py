"""Signing and encryption, and the keys for both."""
