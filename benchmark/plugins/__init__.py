"""Finding, loading, composing and selecting submissions; a broken one is listed, never fatal."""
