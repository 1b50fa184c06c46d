// The tests of DeltaCalculator.
