"""The command line: parse arguments, call the fleet, report results. One module per noun, loaded on use."""
