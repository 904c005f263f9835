"""What a store does: the text, the verbs and the values that go to and fro."""
