"""What the bench of landings needs: a topic, a table, and each way from one to the other."""
