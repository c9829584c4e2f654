"""Pure: no clock, no IO. `acquisition` tracks records in flight, `state` what is persisted."""
