"""The real cluster the tests run on: built, started and taken down by these modules (see README.md)."""
