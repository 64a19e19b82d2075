"""What the tests share: the manifest of the fixtures, a reader of everything, and processes that may die."""
