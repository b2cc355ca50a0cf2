"""Where a job executes: jobs and events, worker, sandboxes, fork server, engines."""
