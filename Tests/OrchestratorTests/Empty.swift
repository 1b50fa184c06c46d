// The tests of Orchestrator.
