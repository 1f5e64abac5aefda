"""What several tests share: fakes, builders and views of the source tree."""
