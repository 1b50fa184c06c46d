// DeltaCalculator
