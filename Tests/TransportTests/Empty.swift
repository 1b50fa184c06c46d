// The tests of Transport.
