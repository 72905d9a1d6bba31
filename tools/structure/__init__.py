"""The new place of each module and definition, and the layer contract checked through it before anything moves."""
