// The tests of Storage.
