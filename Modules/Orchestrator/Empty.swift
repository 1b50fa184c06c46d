// Orchestrator
