"""The contract as one suite of checks, for `leakboard check` and for the tests of all plug-ins."""
