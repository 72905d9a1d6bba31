"""The command line: parse, ask the fleet, report. One module a noun, loaded when it is used."""
