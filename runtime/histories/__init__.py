"""Histories of other products: conversations in any usual shape, made whole."""
