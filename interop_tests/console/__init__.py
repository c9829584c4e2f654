"""The console in a real browser, on real brokers with real data."""
